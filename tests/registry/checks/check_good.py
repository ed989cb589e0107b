"""From each registry to code that runs; then again, with no registry there."""

import json
import os
import re
import stat

from checking import expect, figure

import daemons
import oci
import stand
import tars
from host import Home, Tree, finish, no_process_left
from points import proves
from stand import STAND, at, front


def runs_all(home):
    """Python, bash and node, each out of its image."""
    for language, code, wanted in (
        ("python", "import json, os; print(json.loads('[1, 2]'), os.path.exists('/opt/stale'), os.path.isdir('/opt'))",
         "[1, 2] False True\n"),
        ("bash", "echo $((6 * 7)); ls -d /opt/stale 2>/dev/null || timeout 5 echo merged", "42\nmerged\n"),
        ("node", "console.log([1, 2].map(x => x + 1).join(), require('fs').existsSync('/opt/stale'))", "2,3 false\n"),
    ):  # fmt: skip
        done = home.run(language, code)
        expect((done.code, done.out) == (0, wanted), f"{language}: {done.code} {done.text[-600:]}")
        expect("isolation: native" in done.err and "this machine's /usr" not in done.err, done.err)


def is_laid_out(home):
    """What the folder holds, and who may see it."""
    mode = stat.S_IMODE(os.lstat(home.rootfs).st_mode)
    expect(mode == 0o700, f"the folder's mode: {mode:o}")
    expect(len(home.images()) == 2, f"images: {home.images()}")
    expect(not [name for name in os.listdir(home.rootfs) if name.startswith(".tmp-")], os.listdir(home.rootfs))
    for name in home.images():
        inside = set(os.listdir(os.path.join(home.rootfs, name)))
        expect({"rootfs", "image.json", "files"} <= inside, f"{name}: {sorted(inside)}")
        with open(os.path.join(home.rootfs, name, "image.json")) as record:
            json.load(record)
        Tree(os.path.join(home.rootfs, name, "rootfs")).is_harmless()
    downloads = os.path.join(home.rootfs, ".downloads")
    held = os.listdir(downloads) if os.path.isdir(downloads) else []
    expect(not held, f"downloads that nothing needs any more: {held}")


def has_bytecode(home, image):
    """Python's standard library is compiled, beside bytes that are untouched."""
    folder = home.folder(image)
    compiled = [
        name for _, _, names in os.walk(os.path.join(folder, "bytecode")) for name in names if name.endswith(".pyc")
    ]
    expect(len(compiled) > 100, f"{len(compiled)} compiled files")
    inside = [name for name in Tree(os.path.join(folder, "rootfs")).found if name.endswith(".pyc")]
    expect(not inside, f"compiled among the pinned bytes: {inside[:3]}")


def good(home, pins, **settings):
    done = home.setup(**pins, **settings).is_ready()
    is_laid_out(home)
    return done


@proves("good-plain", 13, 14)
def plain():
    with front() as counting:
        pins = at(counting.address, STAND.full)
        with Home(**pins) as home:
            done = good(home, pins)
            figure(f"setup of both images: {done.seconds:.1f} s")
            has_bytecode(home, stand.python())
            runs_all(home)
            no_process_left()
            fetched = [(one.kind, one.reference) for one in counting.requests if one.kind != "base"]
            expect(len(fetched) == len(set(fetched)), f"asked for twice: {sorted(fetched)}")
            counting.requests.clear()
            again = home.setup().is_ready()
            figure(f"a second run: {again.seconds:.1f} s")
            first, second = (sorted(re.findall(r"is here: (\d+) entries", one.err)) for one in (done, again))
            expect(len(first) == 2 and first == second, f"{first} entries made, {second} checked")
            expect(not counting.requests, f"a second run asked for {[one.target for one in counting.requests]}")
            # And not even the attempt matters.
            counting.close()
            home.setup().is_ready()
            runs_all(home)


@proves("good-registry", 14)
def registry():
    with Home() as home:
        good(home, STAND.full)
        STAND.plain.stop()
        try:
            home.setup(**STAND.full).is_ready()
        finally:
            STAND.plain.restart()


@proves("good-hub", 15)
def hub():
    pins = at(STAND.hub.address, STAND.full)
    blobs = STAND.hub.blobs
    with Home(**pins) as home:
        good(home, pins, _SSL_CERT_FILE=daemons.authority()[0])
        runs_all(home)
    expect(STAND.hub.blobs > blobs, "no blob came from the other origin")
    expect(not STAND.hub.leaked, f"the token went along to {STAND.hub.leaked}")


@proves("good-docker-schema", 14)
def docker():
    """As `docker push` of an old engine leaves them, list and all."""
    with front() as registry, stand.home() as home:
        this = oci.image([oci.layer(tars.layer([tars.file("f")]))], docker=True)
        home.setup(IMAGE_PYTHON=registry.pin(oci.for_both(this, docker=True))).is_blocked()
        expect(set(home.tree(oci.for_both(this, docker=True)).found) == {"f"}, "other files")


@proves("good-two-at-once", 12)
def together():
    with front() as counting:
        pins = stand.small_pins(counting)
        with Home(**pins) as home:
            both = [home.start("setup") for _ in range(2)]
            for process in both:
                finish(process, 0).is_ready()
            blobs = [one.reference for one in counting.asked("blobs")]
            expect(blobs and len(blobs) == len(set(blobs)), f"both loaded: {sorted(blobs)}")
            is_laid_out(home)
    no_process_left()
