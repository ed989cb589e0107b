"""It is removed as the documentation says."""

import os
import subprocess

from checking import check, expect

import stand
from host import AS_USER, Home, by_user
from points import proves
from stand import front

LOCK = """
mkdir -p a/b/c && echo kept >a/b/c/file && chmod 400 a/b/c/file && chmod 000 a/b/c a/b a
ls a 2>/dev/null; echo locked
"""


@proves("removed", 7)
def removed():
    """After runs, with caches and all, by the person and without a trick."""
    with front() as registry:
        pins = stand.small_pins(registry)
        with Home(**pins) as place:
            place.setup().is_ready()
            expect(place.run("python", "import json; print(1)").out == "1\n", "it does not run")
            place.every_run_is_recorded()
            by_user("rm", "-rf", os.path.join(place.path, ".vestibule"))
            expect(os.listdir(place.path) == [], f"left at home: {os.listdir(place.path)}")
            # And it can be had again.
            place.setup().is_ready()
            done = place.run("bash", LOCK)
            expect((done.code, done.out) == (0, "locked\n"), done.text)
            place.every_run_is_recorded()
            everything = os.path.join(place.path, ".vestibule")
            first = subprocess.run([*AS_USER, "rm", "-rf", everything], capture_output=True, text=True)
            expect(first.returncode != 0, "the folders were not locked: this shows nothing")
            by_user("chmod", "-R", "u+rwX", everything)
            by_user("rm", "-rf", everything)
            expect(os.listdir(place.path) == [], f"left at home: {os.listdir(place.path)}")


@check("removed-while-it-is-used")
def while_used():
    """What was removed is named by the next call, or made up for, and nothing breaks down."""
    with front() as registry:
        pins = stand.small_pins(registry)
        with Home(**pins, ROOTFS="image") as place:
            place.setup().is_ready()
            by_user("rm", "-rf", place.rootfs)
            done = place.run("python", "print(1)")
            expect(done.code == 125 and "Blocked: " in done.err and "setup" in done.err, done.text)
