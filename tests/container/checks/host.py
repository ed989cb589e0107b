"""The engine, the person that uses it, and calls to a server."""

import os
import pwd
import subprocess
import sys
import time

from calls import Caller, Place
from checking import Wrong, expect

KIND = os.environ["CHECK_KIND"]
ENGINE = KIND.partition("-")[0]
ROOTLESS = KIND.endswith("-rootless")
PERSON = pwd.getpwnam(os.environ["CHECK_PERSON"])
WORK = os.environ["CHECK_WORK"]
# What every line must say, where that is known: what rootless engines may limit differs from host to host.
LEVEL = os.environ.get("CHECK_LEVEL")
SERVER = os.path.join(WORK, "vestibule-mcp")
VARIABLES = dict(word.split("=", 1) for word in sys.argv[1:])
WORKSPACE = os.path.join(PERSON.pw_dir, ".vestibule", "workspace")
SCRIPTS = os.path.join(PERSON.pw_dir, ".vestibule", "run")
# An emulated machine takes a multiple of the time for everything.
SLOW = int(os.environ.get("CHECK_SLOW", "1"))
PATIENCE = 40 * SLOW
# Where the kernel counts what a container used and an engine's containers are to be seen.
MEASURED = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
IS_ROOT = os.getuid() == 0
AS_PERSON = (
    f"setpriv --reuid {PERSON.pw_uid} --regid {PERSON.pw_gid} --clear-groups --inh-caps=-all --".split()
    if IS_ROOT
    else []
)
PLACE = Place(WORK)


def environment(**settings):
    """What MCP clients pass on, and the variables of this kind of engine."""
    return {
        "HOME": PERSON.pw_dir,
        "LOGNAME": PERSON.pw_name,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "USER": PERSON.pw_name,
        **VARIABLES,
        **{"VESTIBULE_" + name: str(value) for name, value in settings.items()},
    }


class Client(Caller):
    """A server of its own, to be used in a `with` block."""

    def __init__(self, **settings):
        super().__init__([*AS_PERSON, SERVER], environment(**settings), PLACE, PATIENCE)


def engine(*arguments, check=True):
    """What the engine's own command line says."""
    done = subprocess.run(
        [*AS_PERSON, ENGINE, *arguments],
        env=environment(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60 * SLOW,
    )
    if check and done.returncode:
        raise Wrong(f"{ENGINE} {' '.join(arguments)}: {done.stderr}")
    return done.stdout.strip()


def made(name, *changes, archive="python.tar"):
    """An image of its own: one of ours with changes, as a Dockerfile has them."""
    options = [word for change in ("ENV PATH=/usr/local/bin:/usr/bin:/bin", *changes) for word in ("--change", change)]
    full = f"localhost/vestibule-{name}:1"
    engine("import", *options, os.path.join(WORK, "images", archive), full)
    return full


def containers():
    listed = engine("ps", "--all", "--filter", "label=vestibule.run=1", "--format", "{{.Names}}")
    return listed.split()


def wait_until(holds, seconds, what):
    end = time.monotonic() + seconds * SLOW
    while not holds():
        if time.monotonic() > end:
            raise Wrong(what() if callable(what) else what)
        time.sleep(0.1)


def nothing_left(seconds=20):
    """No container and no script, as soon as it is so."""
    wait_until(lambda: not containers(), seconds, lambda: f"containers: {containers()}")
    # A container that was not made yet when its run was ended has a script for a moment longer.
    wait_until(lambda: not scripts(), 2, lambda: f"scripts: {scripts()}")


def scripts():
    return os.listdir(SCRIPTS) if os.path.isdir(SCRIPTS) else []


def is_contained(answer, stdout=None):
    expect((answer.isolation or "").startswith("container"), f"isolation: {answer.text}")
    expect(LEVEL is None or answer.isolation == LEVEL, f"isolation: {answer.text}")
    expect(stdout is None or answer.stdout == stdout, f"stdout: {answer.text}")


def limits(answer):
    """The limits that the isolation line does not take back."""
    said = answer.isolation
    off = said.partition("limits not applied: ")[2].partition(";")[0].split(", ")
    return {"cpu", "memory", "pids"} - set(off)
