"""Images from files, from a mirror, through a proxy."""

import base64
import json
import os
import socket

from checking import expect

import daemons
import oci
import stand
from check_good import runs_all
from front import Proxy, flipped
from host import WORK, Home, finish, give
from points import proves
from stand import STAND, at, front, home, is_tiny

PYTHON, NODE = "docker.io/library/python", "docker.io/library/node"


def tiny(text=b"from a file"):
    return stand.tiny(text)


def pins(python=None):
    """Pins of images that no registry has."""
    return {"IMAGE_PYTHON": f"{PYTHON}@{(python or tiny()).digest}", "IMAGE_NODE": f"{NODE}@{tiny(b'n').digest}"}


def named(python=None):
    return (PYTHON + ":3.12", python or tiny()), (NODE + ":22", tiny(b"n"))


class Given:
    """A folder of the person's own for files that are given to `--from`."""

    def __init__(self, place, name="given"):
        self.path = os.path.join(place.path, name)
        os.makedirs(self.path)
        give(self.path)

    def layout(self, files):
        for name, data in files.items():
            path = os.path.join(self.path, "layout", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.write(data)
        return os.path.join(self.path, "layout")

    def archive(self, files):
        path = os.path.join(self.path, "images.tar")
        oci.write_archive(path, files)
        os.chmod(path, 0o644)
        return path


def from_file(form):
    with Home(**pins()) as place:
        given = Given(place)
        path = given.layout(oci.layout_files(named())) if form == "layout" else given.archive(
            oci.saved_files(named()) if form == "saved" else oci.layout_files(named())
        )  # fmt: skip
        # Nothing is asked of a network that is not there.
        place.setup("--from", path, _HTTPS_PROXY="http://127.0.0.1:1").is_blocked()
        is_tiny(place, tiny(), b"from a file")
        place.setup(_HTTPS_PROXY="http://127.0.0.1:1").is_blocked()
        is_tiny(place, tiny(), b"from a file")


for form in ("layout", "archive", "saved"):
    proves(f"from-{form}", 14, arguments=(form,))(from_file)


@proves("from-archive-runs", 14)
def from_archive_runs():
    """All of both images, out of one archive."""
    real = {"IMAGE_PYTHON": f"{PYTHON}@{stand.python().digest}", "IMAGE_NODE": f"{NODE}@{stand.node().digest}"}
    with Home(**real) as place:
        files = oci.layout_files(((PYTHON, stand.python()), (NODE, stand.node())))
        place.setup("--from", Given(place).archive(files)).is_ready()
        runs_all(place)


def from_wrong(change, *words):
    """A layout in which one thing is wrong."""
    with Home(**pins()) as place:
        files = oci.layout_files(named())
        change(files)
        place.setup("--from", Given(place).layout(files)).is_error(*words)
        expect(not place.has(tiny()), "an image all the same")


def layer_of(image):
    return "blobs/" + next(iter(image.manifests[1].blobs)).replace(":", "/")


def manifest_of(image):
    return "blobs/" + image.manifests[1].digest.replace(":", "/")


def flip(name):
    return lambda files: files.update({name: flipped(files[name])})


def other_images(files):
    files.clear()
    files.update(oci.layout_files(((PYTHON, tiny(b"other")), (NODE, tiny(b"n")))))


for name, change, *words in (
    ("tampered-layer", flip(layer_of(tiny())), "tampered"),
    ("tampered-manifest", flip(manifest_of(tiny())), "is damaged"),
    ("missing-layer", lambda files: files.pop(layer_of(tiny())), "lacks the part"),
    ("short-layer", lambda files: files.update({layer_of(tiny()): b"x"}), "bytes in place of"),
    ("not-that-image", other_images, "has no sha256:"),
):
    # A file that is too short is read again, as if the rest were on its way.
    proves(f"from-layout-{name}", 14, arguments=(change, *words), early=True)(from_wrong)


def unpinned(place):
    """What each image without a digest holds, by its reference."""
    held = {}
    for name in os.listdir(place.rootfs):
        if name.startswith("unpinned-"):
            with open(os.path.join(place.rootfs, name, "image.json")) as record:
                reference = json.load(record)["reference"]
            with open(os.path.join(place.rootfs, name, "rootfs/etc/name"), "rb") as content:
                held[reference] = content.read()
    return held


@proves("from-two-files-without-a-digest", 14)
def from_two():
    """Each file has one image, and its name decides, in whichever order; without names nothing is taken."""
    wanted = {"IMAGE_PYTHON": "python:3.12", "IMAGE_NODE": "docker.io/library/node:22"}
    for order in (0, 1), (1, 0):
        for files in oci.saved_files, oci.layout_files:
            with Home(**wanted) as place:
                paths = []
                for i in order:
                    paths += ["--from", Given(place, f"given-{i}").archive(files(named()[i : i + 1]))]
                place.setup(*paths[:2]).is_error("not of that name")
                place.setup(*paths).is_blocked()
                expect(sorted(unpinned(place).values()) == [b"from a file", b"n"], f"{unpinned(place)}")
                expect(unpinned(place)[wanted["IMAGE_NODE"]] == b"n", f"{unpinned(place)}")
    with Home(**wanted) as place:
        files = oci.layout_files((("latest", tiny()),))
        place.setup("--from", Given(place).archive(files)).is_error("without a name")
        expect(not unpinned(place), f"{unpinned(place)}")


@proves("from-nothing", 14)
def from_nothing():
    with Home(**pins()) as place:
        given = Given(place)
        empty = given.layout({"nothing": b""})
        text = given.archive({"nothing": b""})
        for path in (os.path.join(place.path, "nowhere"), empty, text, "/dev/null", "/etc/hostname"):
            done = place.setup("--from", path).is_error(os.path.basename(path))
            expect(done.seconds < 20, f"{path}: {done.seconds:.0f} s")
        expect(not place.images(), f"images: {place.images()}")


@proves("from-archive-with-links", 14)
def from_links():
    """Of an archive, a link is no file: what it names on this machine is not read."""
    with Home(**pins()) as place:
        given = Given(place)
        path = given.layout(oci.layout_files(named()))
        blob = os.path.join(path, layer_of(tiny()))
        os.unlink(blob)
        os.symlink("/etc/hostname", blob)
        place.setup("--from", path).is_error()
        expect(not place.has(tiny()), "an image all the same")
        os.unlink(blob)
        os.mkfifo(blob)
        done = finish(place.start("setup", "--from", path), 0, 60)
        expect(done.code == 1, f"a pipe for a blob: {done.text}")


@proves("mirror", 14)
def mirror():
    """Pins and names stay, another place is asked; nothing else is."""
    with front() as registry, Home(**pins()) as place:
        for image in (tiny(), tiny(b"n")):
            registry.pin(image)
        place.setup(REGISTRY_MIRROR=registry.url, _HTTPS_PROXY="http://127.0.0.1:1").is_blocked()
        is_tiny(place, tiny(), b"from a file")
        names = {one.name for one in registry.requests if one.name}
        expect(names == {"library/python", "library/node"}, f"asked for {names}")


@proves("mirror-lies", 14, 15)
def mirror_lies():
    digest = tiny().manifests[1].digest
    rule = lambda asked, handler: (
        asked.reference == digest
        and registry.serve(  # noqa: E731
            asked, handler, flipped(tiny().manifests[1].bytes)
        )
    )
    with front(rule) as registry, Home(**pins()) as place:
        for image in (tiny(), tiny(b"n")):
            registry.pin(image)
        done = place.setup(REGISTRY_MIRROR=registry.url, _HTTPS_PROXY="http://127.0.0.1:1")
        done.is_error("tampered")
        expect(not place.has(tiny()), "an image all the same")


@proves("mirror-is-nonsense", 14)
def mirror_nonsense():
    for value in ("ftp://127.0.0.1/", "127.0.0.1:x", "http://192.0.2.1/"):
        with Home(**pins()) as place:
            done = place.setup(REGISTRY_MIRROR=value, _HTTPS_PROXY="http://127.0.0.1:1", bound=60)
            expect(done.code == 1 and "VESTIBULE_REGISTRY_MIRROR" in done.last, f"{value}: {done.text}")


def at_hub():
    return at(STAND.hub.address, {"IMAGE_PYTHON": STAND.tiny_node, "IMAGE_NODE": STAND.tiny_node})


def trusted(**more):
    return {"_SSL_CERT_FILE": daemons.authority()[0], **more}


FAR = "registry.test"


def far_away():
    """A registry under a name that nobody knows, but for a proxy: loopback is never asked through one."""
    return front(certificate=daemons.certificate("far", daemons.authority(), f"DNS:{FAR}"))


def at_far():
    return at(FAR, {"IMAGE_PYTHON": STAND.tiny_node, "IMAGE_NODE": STAND.tiny_node})


@proves("proxy", 15)
def proxy():
    for name in ("_HTTPS_PROXY", "_https_proxy", "_ALL_PROXY"):
        with far_away() as registry, Proxy({FAR: registry.port}) as passing, Home(**at_far()) as place:
            place.setup(**trusted(**{name: passing.url})).is_blocked()
            is_tiny(place)
            asked = {(one.method, one.target) for one in passing.requests}
            expect(asked == {("CONNECT", FAR + ":443")}, f"{name}: through the proxy: {asked}")


@proves("proxy-with-a-password", 15)
def proxy_password():
    with far_away() as registry, Proxy({FAR: registry.port}) as passing, Home(**at_far()) as place:
        url = passing.url.replace("//", "//user:hunter2@")
        done = place.setup(**trusted(_HTTPS_PROXY=url)).is_blocked()
        expect("hunter2" not in done.text, "the proxy's password is shown")
        given = {one.headers.get("Proxy-Authorization") for one in passing.requests}
        expect(given == {"Basic " + base64.b64encode(b"user:hunter2").decode()}, f"given: {given}")


@proves("proxy-dead", 15, early=True)
def proxy_dead():
    with Home(**at_far()) as place, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        done = place.setup(**trusted(_HTTPS_PROXY=f"http://user:hunter2@{address}"))
        done.is_error("proxy", address)
        expect("hunter2" not in done.text, "the proxy's password is shown")


@proves("proxy-not-for-these", 15, early=True)
def no_proxy():
    """What NO_PROXY names is asked directly, and so is loopback without that."""
    with Home(**at_hub()) as place:
        place.setup(**trusted(_HTTPS_PROXY="http://127.0.0.1:1")).is_blocked()
        is_tiny(place)
    for name in ("_NO_PROXY", "_no_proxy"):
        with far_away() as registry, Proxy({FAR: registry.port}) as passing, Home(**at_far()) as place:
            more = {"_HTTPS_PROXY": passing.url, name: f"example.org, {FAR}"}
            place.setup(**trusted(**more)).is_error(FAR)
            expect(not passing.requests, f"{name}: it went through the proxy")


@proves("unknown-authority", 15)
def unknown():
    with Home(**at_hub()) as place:
        place.setup().is_error("certificate", "SSL_CERT_FILE")
        place.setup(_SSL_CERT_FILE=os.path.join(WORK, "nowhere.pem")).is_error("nowhere.pem")
        expect(not place.images(), "an image all the same")


@proves("certificate-of-another-name", 15)
def other_name():
    made = tiny(b"other name")
    certificate = daemons.certificate("elsewhere", daemons.authority(), "DNS:example.org")
    with front(certificate=certificate) as registry, home() as place:
        place.setup(**trusted(IMAGE_PYTHON=registry.pin(made))).is_error("certificate", "not valid for name")
        expect(not registry.requests and not place.has(made), "it spoke to it")
