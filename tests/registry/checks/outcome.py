"""What must come of an image: a refusal that names its cause, or a tree that is known to the last name."""

import hashlib
import os

from checking import expect

FOLDER = object()


class Link:
    def __init__(self, to):
        self.to = to


class Mode:
    """A file or folder with a mode of its own."""

    def __init__(self, mode, what):
        self.mode, self.what = mode, what


class Refused:
    """An error with each of the words; `a|b` is either of two."""

    def __init__(self, *words):
        self.words = words

    def holds(self, home, image, done):
        done.is_error(*self.words)
        expect(not home.has(image), "there is an image all the same")


class Makes:
    """These names and no others. Folders that only lead to them need no mention; that to `maybe` may be there."""

    def __init__(self, names, maybe=""):
        self.names, self.maybe = names, maybe

    def holds(self, home, image, done):
        # It has no interpreter.
        done.is_blocked()
        tree = home.tree(image)
        wanted = dict(self.names)
        for name in self.names:
            for above in leading_to(os.path.dirname(name)):
                wanted.setdefault(above, FOLDER)
        found = set(tree.found) - ({*leading_to(self.maybe)} - set(wanted))
        expect(found == set(wanted), f"too many: {sorted(found - set(wanted))}, too few: {sorted(set(wanted) - found)}")
        for name, what in wanted.items():
            is_as(name, what, tree)


def leading_to(name):
    """The folder and those above it."""
    while name:
        yield name
        name = os.path.dirname(name)


def is_as(name, what, tree):
    kind, mode, content = tree.found[name]
    if isinstance(what, Mode):
        expect(mode == what.mode, f"{name}: mode {mode:o}, not {what.mode:o}")
        what = what.what
    if what is FOLDER:
        expect(kind == "folder", f"{name}: a {kind}, no folder")
    elif isinstance(what, Link):
        expect((kind, content) == ("link", what.to), f"{name}: {kind} {content}, no link to {what.to}")
    elif isinstance(what, Same):
        other = tree.inodes[what.name]
        expect(kind == "file" and content == tree.found[what.name][2], f"{name}: other than {what.name}")
        expect(other.st_size == tree.inodes[name].st_size, f"{name}: other than {what.name}")
    else:
        expect(kind == "file", f"{name}: a {kind}, no file")
        expect(content == hashlib.sha256(what).hexdigest(), f"{name}: other content")


class Same:
    """The content of another file."""

    def __init__(self, name):
        self.name = name
