"""What stands between Vestibule and its cgroup breaks: each call is answered, and says what is missing."""

import os
import shutil
import socket
import subprocess
import threading
import time

from checking import check, expect
from client import WORK, Client, is_native, is_out_of_memory
from machine import (
    JAIL,
    SERVER,
    cgroups,
    leaves,
    no_scope_left,
    nothing_left,
    read,
    running_leaves,
    scopes,
    wait_until,
)

DEGRADED = (
    "native-degraded (limits not applied: cpu, memory; per-process stand-ins: pids, data; "
    "{}; rootfs: this machine's /usr, read-only)"
)
NO_ANSWER = "the user's systemd did not answer within 5 s"
NO_SCOPE = "the user's systemd made no scope: "
AUTHENTICATED = b"OK 0123456789abcdef0123456789abcdef\r\n"


class Bus:
    """Sockets where the user's systemd and its bus would be, and something else behind them."""

    def __init__(self, behave):
        self.behave, self.listeners, self.asked = behave, [], 0
        self.folder = os.path.join(WORK, "runtime")
        os.makedirs(os.path.join(self.folder, "systemd"), 0o700)
        for name in ("bus", "systemd/private"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(os.path.join(self.folder, name))
            listener.listen()
            self.listeners.append(listener)
            threading.Thread(target=self.serve, args=(listener,), daemon=True).start()

    def serve(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed: the check is over
                return
            self.asked += 1
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with connection:
            try:
                self.behave(connection)
            except OSError:  # the other side has gone
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for listener in self.listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        shutil.rmtree(self.folder)


def hangs(connection):
    while connection.recv(4096):
        pass


def babbles(connection):
    connection.sendall(os.urandom(4096) + b"\r\n")
    hangs(connection)


def goes_away(connection):
    """In the middle of the first call."""
    connection.recv(4096)
    connection.sendall(AUTHENTICATED + b"AGREE_UNIX_FD\r\n")


def answers_nonsense(connection):
    """Lets anybody in, and answers with a message that is none."""
    connection.recv(4096)
    connection.sendall(AUTHENTICATED + b"AGREE_UNIX_FD\r\n" + b"l\x02\x01\x01" + b"\xff" * 200)
    hangs(connection)


@check("fault-bus-hangs", hangs, NO_ANSWER)
@check("fault-bus-babbles", babbles, NO_ANSWER, NO_SCOPE)
@check("fault-bus-goes-away", goes_away, NO_ANSWER, NO_SCOPE)
@check("fault-bus-answers-nonsense", answers_nonsense, NO_ANSWER, NO_SCOPE)
def broken_bus(behave, *reasons):
    """The run goes on without a cgroup and names the reason; the next call does not wait again. Whether
    nonsense is refused or more of it waited for depends on where its lines end."""
    with Bus(behave) as bus, Client(environment={"XDG_RUNTIME_DIR": bus.folder}) as client:
        first = client.call("bash", "echo well")
        expect(first.stdout == "well", first.text)
        begin, _, end = DEGRADED.format("\0").partition("\0")
        said = first.isolation or ""
        expect(said.startswith(tuple(begin + reason for reason in reasons)), said)
        expect(said.endswith(end), said)
        asked = bus.asked
        second = client.call("bash", "echo well")
        expect(second.isolation == first.isolation, f"another level: {second.text}")
        expect(bus.asked == asked, f"asked again: {bus.asked} times instead of {asked}")
    nothing_left()
    no_scope_left()


@check("fault-only-the-session-bus-hangs")
def hanging_session_bus():
    """The private socket is asked within what is left of the time."""
    with Bus(hangs) as bus:
        address = f"unix:path={bus.folder}/bus"
        with Client(environment={"DBUS_SESSION_BUS_ADDRESS": address}) as client:
            is_native(client.call("bash", "echo well"), "well")
    no_scope_left()


@check("fault-name-of-the-scope-is-taken")
def taken_name():
    """By hand the name is known beforehand: it is made of the helper's process id."""
    spec = subprocess.run([JAIL, "--print-spec"], stdout=subprocess.PIPE, text=True, cwd=WORK)
    path = os.path.join(WORK, "spec")
    with open(path, "w") as f:
        f.write(spec.stdout)
    take = "systemd-run --user --quiet --unit=mcp-sandbox-$$-$$ --scope sleep 60 >/dev/null 2>&1 & sleep 2"
    script = f'{take}; exec "{JAIL}" --spec "{path}"'
    holder = "mcp-sandbox-*.scope"
    try:
        ran = subprocess.run(["bash", "-c", script], stderr=subprocess.PIPE, text=True)
        expect("isolation: native (" in ran.stderr, ran.stderr)
        expect(len(scopes()) == 1, f"not only the holder's scope is left: {scopes()}")
    finally:
        subprocess.run(["systemctl", "--user", "stop", holder], check=True)
    no_scope_left()


@check("fault-cgroup-cannot-be-removed")
def stuck_cgroup():
    """Somebody makes a cgroup below a run's: the answer comes, and the removal is tried again."""
    with Client() as client:
        call = client.start("bash", "sleep 3; echo well")
        [leaf] = running_leaves()
        held = os.path.join(leaf, "held")
        os.mkdir(held)
        is_native(client.finish(call), "well")
        expect(leaves() == [leaf], f"it went in spite of {held}: {leaves()}")
        os.rmdir(held)
        nothing_left({client.pid})
        client.answers()
    no_scope_left()


@check("fault-memory-of-one-mib")
def little_memory():
    """The sandbox itself fits in the smallest limit that can be set; an interpreter may not."""
    with Client(MEM_MB=1) as client:
        is_native(client.call("bash", "echo well"), "well")
        is_out_of_memory(client.call("python", "print(1)"), 1)
    nothing_left()
    no_scope_left()


@check("fault-machine-out-of-memory")
def machine_out_of_memory():
    """More than the machine has, below the run's own limit: the kernel takes the sandbox first."""
    # Until it is full the machine swaps, which an emulated one may do for a while.
    with Client(MEM_MB=8192, CPU_PCT=200, MAX_TIMEOUT_S=300) as client:
        answer = client.call("python", "a = [bytearray(1 << 20) for _ in range(6000)]", 200)
        head = "[out of memory: not at the sandbox's own limit; the machine, or a limit above, ran out]"
        expect(answer.first == head and answer.exit_code == 137, answer.text)
        client.answers()
    nothing_left()
    no_scope_left()


@check("fault-left-by-a-dead-server")
def left_by_the_dead():
    """In a delegated cgroup nobody but the next server removes what a dead one left."""
    code = os.path.join(WORK, "code")
    with open(code, "w") as f:
        f.write("sleep 3; echo well\n")
    left = "vestibule-run-4194304-5-77"
    older = "mcp-sandbox-runs-4194304-5"
    script = (
        'own="/sys/fs/cgroup$(sed -n "s/^0:://p" /proc/self/cgroup)"; '
        f'mkdir -p "$own/{left}" "$own/{older}/{left}" && echo made; '
        f'exec "{SERVER}" run bash "{code}"'
    )
    command = "systemd-run --user --quiet --pipe --wait -p Delegate=yes bash -c".split()
    pipe = subprocess.PIPE
    process = subprocess.Popen([*command, script], stdout=pipe, stderr=pipe, text=True)
    running_leaves()
    expect(left not in map(os.path.basename, leaves()), f"{left} is still there")
    expect(not cgroups(older), f"{older} is still there")
    out, report = process.communicate()
    expect(out == "made\nwell\n", f"{out}{report}")
    nothing_left()


@check("fault-controllers-are-turned-off-between-runs")
def turned_off():
    """By another program of the same user. The limit of all runs together goes with them, too."""
    with Client() as client:
        client.answers()
        [runs] = cgroups("mcp-sandbox-runs-")
        for folder in (runs, os.path.dirname(runs)):
            with open(os.path.join(folder, "cgroup.subtree_control"), "w") as f:
                f.write("-memory -cpu -pids")
        expect(not os.path.exists(os.path.join(runs, "memory.max")), "the controller is still on")
        client.answers()
        expect(read(runs, "memory.max") == str(4 * 256 << 20), read(runs, "memory.max"))


@check("fault-scope-is-stopped")
def stopped_scope():
    """As by the end of the user manager: systemd ends the server with its scope, and nothing stays."""
    with Client() as client:
        client.start("bash", "sleep 60 & sleep 60")
        running_leaves()
        [scope] = scopes()
        subprocess.run(["systemctl", "--user", "stop", scope], check=True)
        expect(client.server.proc.wait(60) == 0, f"exit code {client.server.proc.poll()}")
        nothing_left()
    no_scope_left()
    with Client() as client:
        client.answers()


@check("fault-user-manager-is-restarted")
def restarted_manager():
    """The host's root restarts it at our word."""
    with Client() as client:
        client.start("bash", "sleep 60 & sleep 60")
        running_leaves()
        with open("/tmp/restart-the-user-manager", "w"):
            pass
        wait_until(lambda: client.server.proc.poll() is not None, "the end of the server")
        nothing_left()
    wait_until(lambda: not os.path.exists("/tmp/restart-the-user-manager"), "the restart")
    time.sleep(1)
    expect(not cgroups("mcp-sandbox"), f"left: {cgroups('mcp-sandbox')}")
    with Client() as client:
        client.answers()
    nothing_left()
    no_scope_left()
