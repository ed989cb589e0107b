"""Every run says that it is native, wherever the server was started and whatever it was told."""

import json
import os
import re
import subprocess

from checking import check, expect
from client import NATIVE, WORK, client_environment
from machine import JAIL, SERVER, home_of, leaves, nothing_left, running_leaves, scopes

HELLO = {"python": 'print("hello")', "bash": "echo hello", "node": 'console.log("hello")'}
SYSTEMD_RUN = ("systemd-run", "--user", "--quiet")
IN_SCOPE = (*SYSTEMD_RUN, "--scope", "-p", "Delegate=yes")
IN_SERVICE = (*SYSTEMD_RUN, "--pipe", "--wait", "-p", "Delegate=yes")


def program(code):
    path = os.path.join(WORK, "code")
    with open(path, "w") as f:
        f.write(code + "\n")
    return path


def start(prefix, env, language, code):
    command = [*prefix, SERVER, "run", language, program(code)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True)


def says_native(process):
    out, report = process.communicate()
    lines = report.splitlines()
    expect(out == "hello\n" and process.returncode == 0, f"{process.returncode}: {out}{report}")
    expect(lines[-1] == f"isolation: {NATIVE}", report)


@check("isolation-python", "python")
@check("isolation-bash", "bash")
@check("isolation-node", "node")
def in_the_session(language):
    says_native(start((), None, language, HELLO[language]))


@check("isolation-in-a-scope-of-the-server", (), "bash")
@check("isolation-below-the-user-manager", (*SYSTEMD_RUN, "--pipe", "--wait"), "bash")
def new_scope(prefix, language):
    """A scope is made, named after the server, among the user's applications."""
    process = start(prefix, None, language, HELLO[language] + "; sleep 1")
    [leaf] = running_leaves()
    made, folder = scopes(), home_of(leaf)
    says_native(process)
    expect(len(made) == 1 and re.fullmatch(r"mcp-sandbox-\d+-\d+\.scope", made[0]), f"scopes: {made}")
    expect(folder.endswith(f"/app.slice/{made[0]}"), f"the leaf lies in {folder}")


@check("isolation-in-a-delegated-scope", IN_SCOPE, ".scope")
@check("isolation-in-a-delegated-service", IN_SERVICE, ".service")
def delegated(prefix, kind):
    """No scope is made where the cgroup is delegated already."""
    process = start(prefix, None, "bash", HELLO["bash"] + "; sleep 1")
    [leaf] = running_leaves()
    made, folder = scopes(), home_of(leaf)
    says_native(process)
    expect(not made, f"scopes: {made}")
    expect("mcp-sandbox" not in folder and folder.endswith(kind), f"the leaf lies in {folder}")


@check("isolation-with-a-client's-environment", {})
@check("isolation-with-a-dead-session-bus", {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere/bus"})
@check("isolation-with-a-bus-without-a-path", {"DBUS_SESSION_BUS_ADDRESS": "unix:abstract=/tmp/x"})
def stripped(more):
    says_native(start((), {**client_environment(), **more}, "bash", HELLO["bash"]))


@check("isolation-by-hand")
def by_hand():
    spec = json.loads(subprocess.check_output([JAIL, "--print-spec"], cwd=WORK))
    path = os.path.join(WORK, "spec.json")
    with open(path, "w") as f:
        json.dump(spec, f)
    printed = json.loads(subprocess.check_output([JAIL, "--json", "--spec", path]))
    expect(printed["isolation"] == NATIVE, printed["isolation"])
    expect(printed["stdout"] == "hello from the sandbox\n", str(printed))


@check("isolation-check-leaves-nothing")
def checked():
    said = subprocess.check_output([JAIL, "--check"], text=True)
    expect(f"isolation: {NATIVE}" in said.splitlines(), said)
    expect(not leaves(), f"{leaves()}")
    nothing_left()
