"""Each hostile image ends in what is written down for it, and nothing outside has changed."""

import os

from checking import expect

import hostile_contents
import hostile_names
import oci
import tars
from host import WORK, Canary, by_user
from points import proves
from stand import front, home


class Outside:
    """The folder that no image may touch, made when it is first needed."""

    path, canary = os.path.join(WORK, "canary"), None

    @classmethod
    def unchanged(cls):
        if cls.canary is None:
            cls.canary = Canary(cls.path)
        cls.canary.is_unchanged()


def hostile(image, outcome):
    Outside.unchanged()
    image = image() if callable(image) else image
    with front() as registry, home() as place:
        done = place.setup(IMAGE_PYTHON=registry.pin(image))
        try:
            outcome.holds(place, image, done)
            if place.has(image):
                place.tree(image).is_harmless()
            leftovers(place)
        finally:
            Outside.unchanged()
        if os.path.lexists(place.rootfs):
            by_user("rm", "-rf", place.rootfs)
        expect(not os.path.lexists(place.rootfs), "it cannot be removed")
        Outside.unchanged()


def leftovers(place):
    """No half-made tree stays behind an error."""
    names = sorted(os.listdir(place.rootfs)) if os.path.isdir(place.rootfs) else []
    expect(not [name for name in names if name.startswith(".tmp-")], f"left: {names}")


def register():
    for name, points, layers, outcome in hostile_names.cases(Outside.path):
        layers = [layers] if isinstance(layers, bytes) else layers
        packed = [oci.layer(one if isinstance(one, bytes) else tars.layer(one)) for one in layers]
        proves(f"hostile-{name}", *points, arguments=(oci.image(packed), outcome))(hostile)
    for name, points, image, outcome in hostile_contents.cases(Outside.path):
        proves(f"hostile-{name}", *points, arguments=(image, outcome))(hostile)


register()
