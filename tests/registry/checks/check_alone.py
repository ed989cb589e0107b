"""One of the two images is not to be had: the other is put into the store all the same."""

import itertools

from checking import check, expect

import stand
from check_transport import changing, part
from front import flipped
from host import Home
from stand import front

UNKNOWN = "sha256:" + "0" * 64
LANGUAGES = ("PYTHON", "NODE")


def pins(registry, bad, image):
    """One setting with that image, the other with one that is to be had."""
    good = next(language for language in LANGUAGES if language != bad)
    return {f"IMAGE_{bad}": registry.pin(image, "library/bad"), f"IMAGE_{good}": registry.pin(stand.tiny())}


def unknown(bad):
    with front() as registry:
        missing = {f"IMAGE_{bad}": f"{registry.address}/library/bad@{UNKNOWN}"}
        with Home(**{**pins(registry, bad, stand.tiny()), **missing}) as place:
            place.setup().is_error("does not have the manifest")
            stand.is_tiny(place)


def damaged(bad):
    """What comes for it is known to be wrong only when the other may be done already."""
    image = stand.tiny(b"damaged")
    with front(changing(part(image, "layer"), flipped)) as registry:
        with Home(**pins(registry, bad, image)) as place:
            place.setup().is_error("tampered")
            stand.is_tiny(place)
            expect(place.images() == [place.folder(stand.tiny()).rpartition("/")[2]], f"{place.images()}")


for what, bad in itertools.product((unknown, damaged), LANGUAGES):
    check(f"alone-{bad.lower()}-is-{what.__name__}", bad)(what)


@check("alone-neither")
def neither():
    """Each is named with what is wrong with it, and what was waited for once is not waited for again."""
    image = stand.tiny(b"damaged")
    with front(changing(part(image, "layer"), flipped)) as registry:
        broken = {**pins(registry, "NODE", image), "IMAGE_PYTHON": f"{registry.address}/library/bad@{UNKNOWN}"}
        with Home(**broken) as place:
            done = place.setup().is_error("does not have the manifest")
            expect("library/bad@sha256:" in done.err and "tampered" in done.err, done.err)
    with Home(**{f"IMAGE_{language}": f"127.0.0.1:1/{language.lower()}@{UNKNOWN}" for language in LANGUAGES}) as place:
        done = place.setup().is_error("127.0.0.1:1 does not answer")
        expect(done.err.count("trying again") == 4, done.err)


@check("alone-an-engine's-id")
def engines_id():
    """No registry is asked for what only an engine knows, and it is not called unpinned."""
    with front() as registry:
        with Home(**{**pins(registry, "NODE", stand.tiny()), "IMAGE_NODE": UNKNOWN}) as place:
            done = place.setup().is_error("is the id of an image that a container engine has")
            expect("without a digest" not in done.text, done.text)
            stand.is_tiny(place)
