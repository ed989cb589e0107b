"""Each hostile image ends in what is written down for it, and nothing outside has changed."""

import os

from checking import check, expect

import hostile_contents
import hostile_names
import oci
import tars
from host import WORK, Canary, Home, by_user
from points import proves
from stand import front, home, python_layers, small_pins


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


# In python's own place for such lines, which each start of it runs; here where it compiles alone.
LEAVES = """\
import os; os.environ.get("PYTHONPYCACHEPREFIX") == "/workspace" and [{} for n in range({})]
"""


def with_python(*entries, **more):
    """A small python, and a layer of these entries on it: it is set up, and python runs."""
    layers = [*python_layers(True), *([oci.layer(tars.layer(entries))] if entries else [])]
    image = oci.for_both(oci.image(layers, **more))
    with front() as registry:
        pins = dict(small_pins(registry), IMAGE_PYTHON=registry.pin(image))
        with Home(**pins) as place:
            done = place.setup().is_ready()
            ran = place.run("python", "import json; print(json.loads('[1]'))")
            expect((ran.code, ran.out) == (0, "[1]\n"), ran.text)
            leftovers(place)
            return done, set(os.listdir(place.folder(image))), os.stat(os.path.join(place.folder(image), "image.json"))


@proves("hostile-compiled-modules", 10)
def compiled():
    """What the image's own code leaves in place of compiled modules is not kept, however much it is."""
    for leaves, count, why in (
        ("open(f'/workspace/{n}.pyc', 'w').close()", 20_001, "more files"),
        ("os.makedirs('/workspace/' + '/'.join(['x' * 245] * 6))", 1, "longer names"),
        ("os.makedirs('/workspace/' + '/'.join('x' * 40))", 1, "too deep"),
        ("open('/workspace/other', 'w').close()", 1, "no compiled module"),
        ("os.truncate(open('/workspace/x.pyc', 'w').name, 2 << 30)", 1, "larger than modules"),
    ):
        folder = "usr/local/lib/python3.%d/dist-packages"
        line = LEAVES.format(leaves, count).encode()
        lines = [tars.file(f"{folder % n}/leaves.pth", line) for n in range(9, 20)]
        done, names, _ = with_python(*lines)
        expect("python's modules are not compiled (" in done.err and why in done.err, f"{why}: {done.err}")
        expect(not {"bytecode", "bytecode.files"} & names, f"{why}: {sorted(names)}")


@check("modules-that-warn")
def warning():
    """They are compiled, however much is said of them."""
    folder = "usr/local/lib/python3.%d/dist-packages"
    modules = [tars.file(f"{folder % n}/warns{i}.py", b"x = 1\nx is 1\n") for n in range(9, 20) for i in range(150)]
    done, names, _ = with_python(*modules)
    expect({"bytecode", "bytecode.files"} <= names, f"not compiled: {done.err}")


@check("ready-without-a-program")
def garbage():
    """An interpreter that cannot be executed is found before anything calls it."""
    text = tars.file("usr/local/bin/python3", b"garbage", 0o755)
    image = oci.for_both(oci.image([*python_layers(True), oci.layer(tars.layer([text]))]))
    with front() as registry, Home(**dict(small_pins(registry), IMAGE_PYTHON=registry.pin(image))) as place:
        place.setup().fails("Blocked: ", "python cannot run", "VESTIBULE_IMAGE_PYTHON")


@proves("hostile-variables", 10)
def variables():
    """A configuration of many variables makes no record that is not read again."""
    _, _, record = with_python(environment=[oci.PATH, *[""] * 1_300_000])
    expect(record.st_size < 4096, f"a record of {record.st_size} bytes")


def register():
    for name, points, layers, outcome in hostile_names.cases(Outside.path):
        layers = [layers] if isinstance(layers, bytes) else layers
        packed = [oci.layer(one if isinstance(one, bytes) else tars.layer(one)) for one in layers]
        proves(f"hostile-{name}", *points, arguments=(oci.image(packed), outcome))(hostile)
    for name, points, image, outcome in hostile_contents.cases(Outside.path):
        proves(f"hostile-{name}", *points, arguments=(image, outcome))(hostile)


register()
