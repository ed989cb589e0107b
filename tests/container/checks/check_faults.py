"""An engine that hangs or dies while code runs."""

import glob
import os
import signal
import subprocess
import time

from checking import Skip, check, expect
from host import IS_ROOT, KIND, PERSON, WORK, Client, is_contained, nothing_left, wait_until

PIDS = {
    "docker": os.path.join(WORK, "docker", "pid"),
    "docker-rootless": os.path.join(PERSON.pw_dir, "run", "docker.pid"),
    "podman": os.path.join(WORK, "podman", "pid"),
}
SOCKET = os.path.join(WORK, "{0}", "{0}.sock")


def daemon():
    if KIND not in PIDS:
        raise Skip("this engine has no daemon")
    if not IS_ROOT:
        raise Skip("needs root, who may stop the daemon")
    if KIND == "docker-rootless":
        # The file holds the number in the daemon's own namespace.
        found = subprocess.run(["pgrep", "-u", PERSON.pw_name, "-x", "dockerd"], capture_output=True, text=True)
        return int(found.stdout.split()[0])
    with open(PIDS[KIND]) as file:
        return int(file.read())


def begun(client, marker):
    path = os.path.join(PERSON.pw_dir, ".vestibule", "workspace", marker)
    wait_until(lambda: os.path.exists(path), 20, "the code was not started")
    os.remove(path)
    # What was printed before goes through the daemon, and must be on our side when it stops.
    time.sleep(1)


@check("fault-a-daemon-that-hangs-in-a-run")
def hangs():
    pid = daemon()
    with Client() as client:
        client.call("bash", "true")
        call = client.start("bash", "echo before; : >begun; sleep 60", 4)
        begun(client, "begun")
        os.kill(pid, signal.SIGSTOP)
        try:
            answer = client.finish(call)
        finally:
            os.kill(pid, signal.SIGCONT)
        expect(answer.first == "[timed out after 4 s and was terminated]", answer.text)
        expect(answer.wall < 8, f"{answer.wall} s")
        is_contained(answer, "before")
        nothing_left(60)


@check("fault-a-daemon-that-hangs-before-a-run")
def hangs_before():
    pid = daemon()
    with Client() as client:
        client.call("bash", "true")
        os.kill(pid, signal.SIGSTOP)
        try:
            answer = client.call("bash", "echo x", 2)
        finally:
            os.kill(pid, signal.SIGCONT)
        expect(answer.is_error and answer.wall < 20, f"{answer.wall} s: {answer.text}")
        nothing_left(60)
        is_contained(client.call("bash", "echo next"), "next")


@check("fault-a-daemon-that-is-killed-in-a-run")
def killed():
    pid = daemon()
    if KIND == "docker-rootless":
        raise Skip("the next check would need the whole of rootlesskit again")
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        command = file.read().split(b"\0")[:-1]
    with open(f"/proc/{pid}/environ", "rb") as file:
        environment = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
    with Client() as client:
        client.call("bash", "true")
        call = client.start("bash", "echo before; : >begun; sleep 8", 20)
        begun(client, "begun")
        os.kill(pid, signal.SIGKILL)
        start = time.monotonic()
        answer = client.finish(call)
        expect(answer.is_error, answer.text)
        expect(time.monotonic() - start < 25, "the answer came late")
        expect("level=" not in answer.stderr and "rpc error" not in answer.stderr, answer.text)
        blocked = client.call("bash", "echo y")
        expect(blocked.text.startswith("Blocked: ") and "does not run" in blocked.text, blocked.text)
        restart(command, environment)
        last = []

        def works():
            last[:] = [client.call("bash", "echo next")]
            return last[0].stdout == "next"

        wait_until(works, 60, lambda: f"no call works again: {last[0].text}")
        nothing_left(60)


def restart(command, environment):
    """The daemon again, as it was started."""
    for path in glob.glob(os.path.join(WORK, "docker", "pid")) + glob.glob(SOCKET.format(KIND)):
        os.remove(path)
    with open(os.path.join(WORK, KIND + ".log"), "ab") as log:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    if KIND == "podman":
        with open(PIDS[KIND], "w") as file:
            file.write(str(process.pid))
    path = SOCKET.format(KIND)
    wait_until(lambda: os.path.exists(path), 30, "the daemon did not start again")
    time.sleep(1)
    os.chown(path, 0, PERSON.pw_gid)
    os.chmod(path, 0o660)
