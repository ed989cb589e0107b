"""What the checks stand on: the images and the registries, each made when it is first needed."""

import functools
import io
import os
import tarfile

from checking import expect

import daemons
import oci
import tars
from front import Front
from host import WORK, Home

# Of the python image, what no interpreter needs to start and to compile: folders, by their name anywhere.
NOT_NEEDED = set(
    "asyncio ctypes curses dbm distutils email html http lib2to3 logging multiprocessing pydoc_data sqlite3 test "
    "tomllib unittest wsgiref xml xmlrpc zoneinfo gconv perl-base locale dpkg share var sbin".split()
)
# Of programs below /usr/bin and of codecs, all but these.
NEEDED = {"bin": ("python", "timeout"), "encodings": ("__init__", "aliases", "ascii", "latin_1", "utf_8.")}
# The first layer holds these wrongly; the second one puts them right.
LATE = "json"


def is_needed(name):
    parts = name.split("/")
    kept = NEEDED.get(parts[-2]) if parts[1:2] == ["usr"] else None
    return NOT_NEEDED.isdisjoint(parts) and (not kept or parts[-1].startswith(kept))


def split(archive, add, small=False):
    """Two layers of a root file system, which are it only when the second lies rightly on the first."""
    lower, upper = io.BytesIO(), io.BytesIO()
    with (
        tarfile.open(os.path.join(WORK, "images", archive)) as whole,
        tarfile.open(fileobj=lower, mode="w") as first,
        tarfile.open(fileobj=upper, mode="w") as second,
    ):
        for member in whole:
            parts = member.name.split("/")
            if small and not is_needed(member.name):
                continue
            late = len(parts) > 1 and parts[-2] == LATE and "usr" in parts
            (second if late else first).addfile(member, whole.extractfile(member) if member.isreg() else None)
        put(first, tars.folder("opt/stale"), tars.file("opt/stale/file"))
        for name in add:
            put(first, tars.file(name, b"not this one\n", 0o755))
        put(second, tars.file("opt/.wh.stale", b""), *add.values())
    return [oci.layer(one.getvalue()) for one in (lower, upper)]


def put(archive, *entries):
    for entry in entries:
        info = tarfile.TarInfo(entry["name"])
        for field, value in entry.items():
            if field not in ("name", "data"):
                setattr(info, field, value)
        data = entry.get("data", b"")
        info.size = len(data) if info.isreg() else 0
        archive.addfile(info, io.BytesIO(data))


def interpreter():
    """The name of python in the image."""
    with tarfile.open(os.path.join(WORK, "images", "python.tar")) as whole:
        names = [os.path.basename(name) for name in whole.getnames() if "/usr/bin/python3." in name]
    return "/usr/bin/" + min(names, key=len)


def python_layers(small):
    to = interpreter()
    return split(
        "python.tar",
        {f"usr/local/bin/{name}": tars.link(f"usr/local/bin/{name}", to) for name in ("python", "python3")},
        small,
    )


@functools.cache
def python():
    return oci.for_both(oci.image(python_layers(False)))


@functools.cache
def node():
    path = "usr/local/bin/node"
    return oci.for_both(oci.image(split("node.tar", {path: tars.link(path, "/usr/bin/node")})))


@functools.cache
def small_python():
    """Python with less of its standard library, for what is done many times."""
    return oci.for_both(oci.image(python_layers(True)))


def small_pins(registry):
    """The settings of both images, pushed to a front."""
    return {
        "IMAGE_PYTHON": registry.pin(small_python(), "library/python"),
        "IMAGE_NODE": registry.pin(small_node(), "library/node"),
    }


@functools.cache
def small_node():
    """Small, and enough for an image of node that is never run: it has bash, and a node that says nothing."""
    with tarfile.open(os.path.join(WORK, "images", "python.tar")) as whole:
        wanted = ("./bin", "./lib", "./lib64", "./usr/bin/timeout", "./etc")
        kept = io.BytesIO()
        with tarfile.open(fileobj=kept, mode="w") as out:
            for member in whole:
                if member.name == "." or member.name.startswith(wanted):
                    out.addfile(member, whole.extractfile(member) if member.isreg() else None)
            put(out, tars.folder("usr/local"), tars.folder("usr/local/bin"))
            put(out, tars.hard("usr/local/bin/node", "./bin/true", 0o755))
    return oci.for_both(oci.image([oci.layer(kept.getvalue())]))


@functools.cache
def tiny(text=b"tiny"):
    """An image with no program in it, in two layers."""
    lower = [tars.folder("etc"), tars.file("etc/name", b"lower"), tars.file("etc/gone"), tars.file("etc/kept", text)]
    upper = [tars.file("etc/name", text), tars.file("etc/.wh.gone", b"")]
    return oci.for_both(oci.simple(lower, upper))


def is_tiny(home, image=None, text=b"tiny"):
    """That the tiny image is there as it must be."""
    tree = home.tree(image or tiny(text))
    names = {name for name in tree.found if name.split("/")[0] == "etc"}
    expect(names == {"etc", "etc/name", "etc/kept"}, f"files: {names}")
    for name in ("name", "kept"):
        with open(os.path.join(tree.root, "etc", name), "rb") as data:
            expect(data.read() == text, f"{name}: other content")
    tree.is_harmless()


class Stand:
    """The registries. Everything is started once, and stopped at the end."""

    @functools.cached_property
    def plain(self):
        daemon = daemons.plain()
        # The storage exists from its first push on.
        registry = oci.Registry(daemon.address)
        registry.push("library/tiny", tiny(), "latest")
        return daemon

    @functools.cached_property
    def registry(self):
        return oci.Registry(self.plain.address)

    @functools.cached_property
    def full(self):
        """The pins of the real images at the plain registry."""
        return {
            "IMAGE_PYTHON": self.registry.push("library/python", python(), "latest"),
            "IMAGE_NODE": self.registry.push("library/node", node(), "latest"),
        }

    @functools.cached_property
    def tiny_node(self):
        """A pin for the node image, where it is the other one that matters."""
        return self.registry.push("library/tiny", tiny())

    @functools.cached_property
    def password(self):
        return daemons.with_password()

    @functools.cached_property
    def hub(self):
        return daemons.HubLike().start()


STAND = Stand()


def front(rule=None, **more):
    """A registry of our own over the same storage."""
    return Front(daemons.STORAGE, rule, **more)


def at(address, pins):
    """The same pins at another address."""
    return {name: address + "/" + pin.partition("/")[2] for name, pin in pins.items()}


def home(**settings):
    """A home where the node image is the tiny one, unless that is said otherwise."""
    settings.setdefault("IMAGE_NODE", STAND.tiny_node)
    return Home(**settings)
