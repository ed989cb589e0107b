"""Which image of an index, and what a reference may be."""

import hashlib
import json
import os

from checking import expect

import oci
import stand
from host import Home, Tree
from points import proves
from stand import STAND, front, home, is_tiny


@proves("platform-others-only", 14)
def others():
    """What there is is named, and what is no image is not."""
    made = oci.index(
        (oci.simple([], architecture="s390x"), "s390x"), (oci.simple([], architecture="ppc64le"), "ppc64le")
    )
    with front() as registry, home() as place:
        done = place.setup(IMAGE_PYTHON=registry.pin(made)).is_error(
            "linux/s390x", "linux/ppc64le", f"linux/{oci.MACHINE}"
        )
        expect("unknown/unknown" not in done.text, f"an attestation is no machine: {done.text}")
        expect(not place.has(made), "an image all the same")
        asked = {one.reference for one in registry.asked("manifests")}
        expect(asked == {made.digest}, f"more was asked for: {asked}")


@proves("platform-attestation-only", 14)
def attestation():
    made, _ = oci.attestation(oci.simple([]))
    this = oci.Image(oci.INDEX, {"schemaVersion": 2, "mediaType": oci.INDEX, "manifests": [
        made.descriptor(platform={"os": "unknown", "architecture": "unknown"})
    ]}, {}, [made])  # fmt: skip
    with front() as registry, home() as place:
        place.setup(IMAGE_PYTHON=registry.pin(this)).is_error(f"linux/{oci.MACHINE}")


@proves("platform-in-the-configuration", 14)
def configuration():
    """A single manifest whose configuration is for another machine."""
    made = oci.simple([], architecture=oci.OTHER)
    with front() as registry, home() as place:
        place.setup(IMAGE_PYTHON=registry.pin(made)).is_error(f"linux/{oci.OTHER}")
        expect(not place.has(made), "an image all the same")


@proves("pin-of-a-manifest", 14)
def manifest():
    made = stand.tiny(b"single").manifests[1]
    with front() as registry, home() as place:
        place.setup(IMAGE_PYTHON=registry.pin(made)).is_blocked()
        is_tiny(place, made, b"single")


@proves("pin-with-a-tag", 14)
def tag_and_pin():
    """`name:tag@digest`, as people copy it: the digest counts."""
    made = stand.tiny(b"tag and pin")
    with front() as registry, home() as place:
        pin = registry.pin(made).replace("@", ":3.12-slim@")
        place.setup(IMAGE_PYTHON=pin).is_blocked()
        is_tiny(place, made, b"tag and pin")


@proves("pin-by-sha512", 14)
def sha512():
    made = stand.tiny(b"sha512").manifests[1]
    digest = "sha512:" + hashlib.sha512(made.bytes).hexdigest()
    with front() as registry, home() as place:
        pin = registry.pin(made, digest=digest)
        registry.extra[digest] = made.bytes
        place.setup(IMAGE_PYTHON=pin).is_blocked()
        is_tiny(place, digest, b"sha512")
        registry.requests.clear()
        place.setup(IMAGE_PYTHON=pin).is_blocked()
        expect(not registry.requests, "a second run asked again")


@proves("pin-of-sha512-is-checked", 14)
def sha512_wrong():
    made = stand.tiny(b"sha512").manifests[1]
    digest = "sha512:" + "0" * 128
    with front() as registry, home() as place:
        pin = registry.pin(made, digest=digest)
        registry.extra[digest] = made.bytes
        place.setup(IMAGE_PYTHON=pin).is_error("tampered")
        expect(not place.has(digest), "an image all the same")


@proves("tag-alone", 14)
def tag():
    """Works, and says that it proves nothing."""
    STAND.registry.push("library/tiny", stand.tiny(), "latest")
    with Home(IMAGE_PYTHON=f"{STAND.plain.address}/library/tiny:latest", IMAGE_NODE=STAND.tiny_node) as place:
        done = place.setup().is_blocked()
        expect("VESTIBULE_IMAGE_PYTHON is" in done.err and "without a digest" in done.err, f"no warning: {done.err}")
        others = [name for name in os.listdir(place.rootfs) if name.startswith("unpinned-")]
        expect(len(others) == 1, f"no image: {os.listdir(place.rootfs)}")
        expect(
            set(Tree(os.path.join(place.rootfs, others[0], "rootfs")).found) == {"etc", "etc/name", "etc/kept"}, "files"
        )


@proves("reference-is-nonsense", 14)
def nonsense():
    for value in (
        "127.0.0.1:1/library/python@sha256:abc",
        "127.0.0.1:1/library/python@md5:" + "0" * 32,
        "127.0.0.1:1/../python@sha256:" + "0" * 64,
        "http://127.0.0.1:1/library/python:3",
        "127.0.0.1:1/library/python:a b",
    ):
        with home(IMAGE_PYTHON=value) as place:
            done = place.setup()
            expect(done.code == 1 and "VESTIBULE_IMAGE_PYTHON" in done.last, f"{value}: {done.text[-500:]}")
            expect("Fix: " in done.last and not place.images(), f"{value}: {done.text[-500:]}")


@proves("index-in-an-index", 14, 10)
def nested():
    """An index may name an index; not itself, and not without end."""
    inner = stand.tiny(b"nested")
    made = oci.Image(oci.INDEX, {"schemaVersion": 2, "mediaType": oci.INDEX, "manifests": [
        inner.descriptor(platform={"os": "linux", "architecture": oci.MACHINE})
    ]}, {}, [inner])  # fmt: skip
    with front() as registry, home() as place:
        done = place.setup(IMAGE_PYTHON=registry.pin(made))
        expect(done.code == 1 and "Fix: " in done.last, done.text)
        if place.has(made):
            is_tiny(place, made, b"nested")


@proves("document-of-another-kind", 14)
def kinds():
    for document, word in (
        (b'{"schemaVersion":1,"fsLayers":[]}', "schema 1"),
        (b'{"schemaVersion":2}', "neither an index nor a manifest"),
        (b"[" * 100_000, "cannot be read"),
        (b'{"schemaVersion":2,"manifests":[],"layers":[]}', "an index and a manifest at once"),
    ):
        made = oci.Image(oci.MANIFEST, {}, {})
        made.bytes, made.digest = document, oci.digest_of(document)
        with front() as registry, home() as place:
            place.setup(IMAGE_PYTHON=registry.pin(made)).is_error(word)


@proves("document-too-large", 10)
def too_large():
    made = stand.tiny(b"large").manifests[1]
    made = oci.Image(oci.MANIFEST, {**json.loads(made.bytes), "annotations": {"x": "y" * (5 << 20)}}, made.blobs)
    with front() as registry, home() as place:
        place.setup(IMAGE_PYTHON=registry.pin(made)).is_error("larger than")
        expect(not place.has(made), "an image all the same")
