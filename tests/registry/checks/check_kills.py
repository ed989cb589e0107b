"""Killed at any moment, nothing half-made counts."""

import os
import random
import signal
import subprocess
import time

from checking import expect, figure

import oci
import stand
import tars
from daemons import until
from host import Done, Home, Tree, finish, kill, no_process_left
from points import proves
from stand import front, small_pins

ROUNDS = 50
SEED = int(os.environ.get("CHECK_SEED") or random.randrange(1 << 30))


def state(place):
    """All that is in the folders of images; of records only that they are there.

    Compiled modules come after the image, and count once they have a list: before that they are None.
    """
    seen = {}
    for name in place.images():
        tree = Tree(os.path.join(place.rootfs, name))
        tree.found.pop("image.json")
        seen[name] = {path: what for path, what in tree.found.items() if not path.startswith("bytecode")}
        compiled = sorted(path for path in tree.found if path.startswith("bytecode/"))
        seen[name]["bytecode"] = compiled if "bytecode.files" in tree.found else None
    return seen


def slowly(asked, handler):
    """As over a wire, so that loading takes a part of the time that can be hit."""
    if asked.kind != "blobs":
        return False
    body = handler.server.front.content(asked.reference)
    handler.send_response(206 if asked.offset else 200)
    handler.send_header("Content-Length", str(len(body) - asked.offset))
    if asked.offset:
        handler.send_header("Content-Range", f"bytes {asked.offset}-{len(body) - 1}/{len(body)}")
    handler.end_headers()
    for at in range(asked.offset, len(body), 1 << 20):
        handler.wfile.write(body[at : at + (1 << 20)])
        time.sleep(0.01)
    return True


def light():
    """Many files and no program: quickly set up, so that many kills cost little."""
    lower = [tars.file(f"usr/lib/{i}", str(i).encode() * 400) for i in range(300)]
    upper = [tars.file(f"usr/lib/{i}", b"again") for i in range(0, 300, 3)] + [tars.file("usr/lib/.wh.1", b"")]
    return oci.for_both(oci.simple(lower, upper))


def rounds(place, number, chance, ended):
    """That many kills, spread over the time that a whole setup takes, and what was there after each."""
    whole = place.setup()
    ended(whole)
    reference = state(place)
    expect(len(reference) == 2, f"images: {sorted(reference)}")
    place.remove_images()
    hit, tried, there = 0, 0, {"none": 0, "one": 0, "both": 0, "not compiled": 0}
    seconds, from_nothing = whole.seconds, True
    order = list(range(number))
    chance.shuffle(order)
    while hit < number and tried < 4 * number:
        # Some come after its end, so that the end is hit too.
        moment, start = seconds * 1.2 * (order[tried % number] + chance.random()) / number, time.monotonic()
        tried += 1
        process = place.start("setup")
        try:
            process.wait(moment)
            # The machine may be less busy than it was.
            if from_nothing:
                seconds = min(seconds, time.monotonic() - start)
        except subprocess.TimeoutExpired:
            # The command alone, as the kernel does it when memory is short.
            os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        hit += process.returncode == -signal.SIGKILL
        no_process_left()
        now = state(place)
        compare(now, reference, there, f"after {moment:.2f} s of {seconds:.2f}")
        there[("none", "one", "both")[len(now)]] += 1
        # What is left behind goes on into the next round, unless nothing would be left to do.
        from_nothing = len(now) == 2 or chance.random() < 0.3
        if from_nothing:
            place.remove_images()
    figure(f"{hit} of {tried} setups of {seconds:.1f} s were killed; images then: {there}")
    expect(hit == number, f"only {hit} were hit")
    ended(place.setup())
    expect(state(place) == reference, "the last one made something else")
    left = [name for name in os.listdir(place.rootfs) if name.startswith(".tmp-")]
    expect(not left, f"never tidied: {left}")
    return there, reference


def compare(now, reference, there, when):
    """Whether every image that has its name is whole."""
    for name, held in now.items():
        if held["bytecode"] is None:
            held["bytecode"] = reference[name]["bytecode"]
            there["not compiled"] += held["bytecode"] is not None
        changed = [path for path in {*held, *reference[name]} if held.get(path) != reference[name].get(path)]
        expect(not changed, f"{when}: {name} has {sorted(changed)[:5]}")


@proves("kills", 12)
def kills():
    """With all that a setup does, up to the compiled modules."""
    figure(f"the seed of the kills: {SEED}")
    with front(slowly) as registry, Home(**small_pins(registry)) as place:
        there, reference = rounds(place, ROUNDS // 4, random.Random(SEED), Done.is_ready)
        expect(any(held["bytecode"] for held in reference.values()), "nothing was compiled: that part is not hit")
        expect(there["none"] and there["one"] + there["both"], f"not at every stage: {there}")
        done = place.run("python", "import json; print(json.loads('[1]'))")
        expect((done.code, done.out) == (0, "[1]\n"), done.text)


@proves("kills-while-unpacking", 12)
def light_kills():
    with front(slowly) as registry, stand.home(IMAGE_PYTHON=registry.pin(light())) as place:
        rounds(place, ROUNDS - ROUNDS // 4, random.Random(SEED + 1), Done.is_blocked)


@proves("kill-while-another-waits", 12)
def successor():
    """The one that waited goes on when the first is killed."""
    with front(slowly) as registry, Home(**small_pins(registry)) as place:
        first = place.start("setup")
        time.sleep(0.5)
        second = place.start("setup")
        time.sleep(0.5)
        kill(first)
        finish(second, 0).is_ready()
    no_process_left()


# In python's own place for such lines: what it compiles for goes on filling the folder for a while.
FILLS = """\
import os; os.environ.get("PYTHONPYCACHEPREFIX") == "/workspace" and exec({!r})
"""
FILLING = """
import shutil, time
end = time.monotonic() + 3
while time.monotonic() < end:
    for n in range(50):
        try:
            os.makedirs(f"/workspace/{n}", exist_ok=True)
            open(f"/workspace/{n}/{time.monotonic_ns()}", "w").close()
        except FileNotFoundError:
            pass
for n in range(50):
    shutil.rmtree(f"/workspace/{n}", True)
"""


def is_compiling(place, process):
    """Whether its compiler is at work, for an image that has its name already."""
    expect(process.poll() is None, "it ended by itself")
    try:
        return len(os.listdir(os.path.join(place.rootfs, f".tmp-bytecode-{process.pid}"))) > 40
    except FileNotFoundError:
        return False


@proves("kill-while-modules-are-written-and-another-waits", 12)
def compiling():
    """The compiler lives for a moment longer, and writes into the folder that the next one removes."""
    lines = FILLS.format(FILLING).encode()
    folders = [f"usr/local/lib/python3.{n}/dist-packages" for n in range(9, 20)]
    fills = tars.layer([tars.file(f"{folder}/fills.pth", lines) for folder in folders])
    image = oci.for_both(oci.image([*stand.python_layers(True), oci.layer(fills)]))
    with front() as registry, Home(**dict(small_pins(registry), IMAGE_PYTHON=registry.pin(image))) as place:
        first = place.start("setup")
        until(lambda: os.path.isdir(os.path.join(place.rootfs, ".downloads")), 20, "nothing was loaded")
        for _ in range(10):
            second = place.start("setup")
            until(lambda: is_compiling(place, first), 60, "nothing was compiled")
            os.kill(first.pid, signal.SIGKILL)
            first.communicate()
            first = second
        finish(first, 0).is_ready()
        left = [name for name in os.listdir(place.rootfs) if name.startswith(".tmp-")]
        expect(not left, f"left: {left}")
    no_process_left()


@proves("interrupted", 12)
def interrupted():
    """By Ctrl-C or by a supervisor, it ends at once, and the next one works."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with front(slowly) as registry, Home(**small_pins(registry)) as place:
            process = place.start("setup")
            time.sleep(0.6)
            process.send_signal(number)
            begun = time.monotonic()
            process.communicate(timeout=20)
            expect(process.returncode not in (0, None), f"signal {number}: exit {process.returncode}")
            expect(time.monotonic() - begun < 5, f"signal {number}: it took {time.monotonic() - begun:.1f} s")
            no_process_left()
            place.setup().is_ready()
