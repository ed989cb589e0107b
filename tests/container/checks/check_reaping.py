"""What a dead server leaves ends by itself and is removed by the next one; what may be another's stays."""

import os
import signal
import time

from checking import check, expect
from host import SCRIPTS, VARIABLES, Client, containers, engine, is_contained, nothing_left, wait_until

IMAGE = VARIABLES["VESTIBULE_IMAGE_PYTHON"]


def plant(name, deadline, life, *command):
    """A container as a server would have left it."""
    verb = "run" if command else "create"
    labels = ["vestibule.run=1", f"vestibule.deadline={deadline}", f"vestibule.life={life}"]
    options = [word for label in labels for word in ("--label", label)]
    detach = ["--detach"] if command else []
    engine(verb, *detach, "--name", name, "--network", "none", *options, IMAGE, *(command or ["true"]))


@check("reaping-of-a-killed-server")
def killed_server():
    with Client() as client:
        client.call("bash", "true")
        nothing_left()
        client.start("bash", "sleep 60", 2)
        wait_until(containers, 20, "no container came")
        [name] = containers()
        client.server.proc.send_signal(signal.SIGKILL)
        client.server.proc.wait()

    def ended():
        return engine("inspect", "--type", "container", "--format", "{{.State.Running}}", name) == "false"

    # Its timeout, and what it is given beyond.
    wait_until(ended, 20, "the container did not end by itself")
    expect(os.path.isdir(os.path.join(SCRIPTS, name)), "whose script is this?")
    engine("rm", "--force", name)
    os.rename(os.path.join(SCRIPTS, name), os.path.join(SCRIPTS, "vestibule-of-a-dead-server"))
    old = time.time() - 2 * 86_400
    os.utime(os.path.join(SCRIPTS, "vestibule-of-a-dead-server"), (old, old))
    with Client() as client:
        client.call("bash", "true")
        wait_until(lambda: not os.listdir(SCRIPTS), 20, lambda: f"scripts: {os.listdir(SCRIPTS)}")


@check("reaping-takes-what-is-overdue-alone")
def overdue():
    now = int(time.time())
    plant("vestibule-overdue", now - 10, 75)
    plant("vestibule-not-yet", now + 600, 75)
    plant("vestibule-runs", now - 10, 600, "sleep", "300")
    engine("create", "--name", "vestibule-somebody-elses", "--network", "none", IMAGE, "true")
    try:
        with Client() as client:
            is_contained(client.call("bash", "echo x"), "x")
            wait_until(lambda: "vestibule-overdue" not in containers(), 20, "the overdue one stays")
            time.sleep(1)
            left = set(containers())
            expect({"vestibule-not-yet", "vestibule-runs"} <= left, f"left: {left}")
            engine("inspect", "vestibule-somebody-elses")
    finally:
        for name in "vestibule-not-yet vestibule-runs vestibule-somebody-elses".split():
            engine("rm", "--force", name, check=False)


@check("reaping-side-by-side")
def side_by_side():
    with Client() as first, Client() as second:
        call = first.start("bash", "sleep 4; echo first")
        wait_until(containers, 20, "no container came")
        for _ in range(3):
            is_contained(second.call("bash", "echo second"), "second")
        is_contained(first.finish(call), "first")
        nothing_left()
