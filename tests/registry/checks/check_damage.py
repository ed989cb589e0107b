"""A finished image that somebody changed is not taken for whole."""

import os

from checking import expect

import stand
from host import Home, by_user
from points import proves
from stand import front, is_tiny

# Each changes the tree below the first argument, as the person.
DAMAGES = {
    "changed": "printf rotten >etc/kept",
    # The same size and time, so that only the content tells.
    "changed-in-secret": "cp -p etc/kept x && tr a-z b-za <x >etc/kept && touch -r x etc/kept && rm x",
    "removed": "rm etc/kept",
    "added": "echo planted >etc/planted",
    "added-below-a-new-folder": "mkdir -p new/below && echo planted >new/below/file",
    "mode": "chmod 600 etc/kept",
    "set-id": "chmod u+s etc/kept",
    "folder-mode": "chmod 777 etc",
    "file-to-link": "rm etc/kept && ln -s /etc/passwd etc/kept",
    "file-to-folder": "rm etc/kept && mkdir etc/kept",
    "folder-to-link": "cp -r etc ../elsewhere && rm -r etc && ln -s ../elsewhere etc",
    "all-of-it": "rm -r etc",
    "pipe": "rm etc/kept && mkfifo etc/kept",
    "closed": "chmod 000 etc",
}


def tree_of(place):
    return os.path.join(place.folder(stand.tiny(b"damaged")), "rootfs")


def is_whole(place):
    is_tiny(place, stand.tiny(b"damaged"), b"damaged")
    expect(set(place.tree(stand.tiny(b"damaged")).found) == {"etc", "etc/name", "etc/kept"}, "more than was there")


def damaged(command):
    with front() as registry, stand.home() as place:
        pin = registry.pin(stand.tiny(b"damaged"))
        place.setup(IMAGE_PYTHON=pin).is_blocked()
        is_whole(place)
        by_user("sh", "-ec", f"cd '{tree_of(place)}' && {command}")
        done = place.setup(IMAGE_PYTHON=pin).is_blocked()
        expect("is here and damaged" in done.err, f"not a word: {done.err}")
        is_whole(place)


for name, command in DAMAGES.items():
    proves(f"damage-{name}", 13, arguments=(command,))(damaged)


@proves("damage-without-a-registry", 13, early=True)
def no_registry():
    """It is named where it cannot be mended."""
    with stand.home() as place:
        with front() as registry:
            pin = registry.pin(stand.tiny(b"damaged"))
            place.setup(IMAGE_PYTHON=pin).is_blocked()
        by_user("sh", "-ec", f"cd '{tree_of(place)}' && {DAMAGES['changed']}")
        done = place.setup(IMAGE_PYTHON=pin).is_error(registry.address)
        expect("is here and damaged" in done.err, f"not a word: {done.err}")


@proves("damage-of-the-record", 12, 13)
def record():
    """What is known of the image may be damaged as well."""
    for file, command in (
        ("files", "rm"), ("files", "truncate -s 10"), ("files", "truncate -s 0"),
        ("image.json", "rm"), ("image.json", "truncate -s 5"), ("rootfs", "rm -r"),
    ):  # fmt: skip
        with front() as registry, stand.home() as place:
            pin = registry.pin(stand.tiny(b"damaged"))
            place.setup(IMAGE_PYTHON=pin).is_blocked()
            by_user("sh", "-ec", f"cd '{place.folder(stand.tiny(b'damaged'))}' && {command} {file}")
            place.setup(IMAGE_PYTHON=pin).is_blocked()
            is_whole(place)


@proves("damage-of-bytecode", 13)
def bytecode():
    """Compiled code that somebody planted is not run."""
    with front() as registry:
        pins = stand.small_pins(registry)
        with Home(**pins) as place:
            place.setup().is_ready()
            folder = os.path.join(place.folder(stand.small_python()), "bytecode")
            found = by_user("find", folder, "-name", "json*", "-o", "-name", "decoder*.pyc").stdout.split()
            files = [name for name in found if name.endswith(".pyc")]
            expect(files, f"no bytecode of json: {found}")
            for name in files:
                by_user("sh", "-ec", f"chmod u+w '{name}' && printf rotten >'{name}'")
            # Python would die of it; so the whole of it is left out.
            done = place.run("python", "import json.decoder; print(json.loads('[1]'))")
            expect((done.code, done.out) == (0, "[1]\n"), f"damaged: {done.text}")
            place.setup().is_ready()
            for name in files:
                with open(name, "rb") as data:
                    expect(data.read() != b"rotten", f"still there: {name}")
            done = place.run("python", "import json.decoder; print(json.loads('[1]'))")
            expect((done.code, done.out) == (0, "[1]\n"), done.text)
