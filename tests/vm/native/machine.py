"""The machine around the sandboxes, looked at from outside."""

import os
import subprocess
import threading
import time

from checking import Wrong

PROGRAMS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SERVER = os.path.join(PROGRAMS, "vestibule-mcp")
JAIL = os.path.join(PROGRAMS, "vestibule-jail")
USERS = f"/sys/fs/cgroup/user.slice/user-{os.getuid()}.slice"
# Long enough for an emulated machine with other work; nothing but a failure waits for its end.
PATIENCE = 60


def read(*path):
    with open(os.path.join(*map(str, path))) as f:
        return f.read().strip()


def cgroups(begin):
    """The folders of the user's cgroups whose names begin so."""
    found = []
    for top, names, _ in os.walk(USERS):
        found += [os.path.join(top, name) for name in names if name.startswith(begin)]
    return found


def leaves():
    return cgroups("vestibule-run-")


def runs_of(leaf):
    """The folder of all runs of the server that the leaf is one of."""
    return os.path.dirname(leaf)


def home_of(leaf):
    """The delegated folder: by hand a leaf lies in it, a server's runs lie one level below."""
    above = os.path.dirname(leaf)
    return os.path.dirname(above) if os.path.basename(above).startswith("mcp-sandbox-runs-") else above


def members(folder):
    try:
        return [int(pid) for pid in read(folder, "cgroup.procs").split()]
    except OSError:  # it is gone
        return []


def helper_of(leaf):
    """The id of the helper that made it: the last part of its name."""
    return int(leaf.rsplit("-", 1)[1])


def cgroup_of(pid):
    return read("/proc", pid, "cgroup")


def units(*options):
    """The names of the user's units that are loaded, as systemctl is told to choose them."""
    command = ["systemctl", "--user", "list-units", "--no-legend", "--plain", *options]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return [line.split()[0] for line in said.splitlines()]


def scopes():
    return units("--all", "mcp-sandbox*")


def processes():
    """Every process of this user, with the time it was started: ids are used again."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            # The folder itself belongs to root when the process is not dumpable, as init is.
            status = read("/proc", pid, "status")
            uid = int(status.split("\nUid:", 1)[1].split()[0])
            if uid == os.getuid():
                started = read("/proc", pid, "stat").rpartition(")")[2].split()[19]
                found[int(pid), started] = status.split(None, 2)[1]
        except (OSError, IndexError):  # it has ended
            pass
    return found


BEFORE = processes()
# The session bus is started by the first that asks for it, and a check restarts the user manager.
ON_DEMAND = {"dbus-daemon", "systemd", "(sd-pam)"}


def strangers(known=()):
    """Processes that came after this program, without those whose ids are known."""
    return [
        f"process {process[0]} {name}"
        for process, name in processes().items()
        if process not in BEFORE and process[0] not in known and name not in ON_DEMAND
    ]


def memory(*names):
    """Lines of /proc/meminfo, in bytes."""
    values = dict(line.split(":") for line in read("/proc/meminfo").splitlines())
    return [int(values[name].split()[0]) << 10 for name in names]


def wait_until(look, what, seconds=PATIENCE):
    """What `look` gives as soon as that is true."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise Wrong(f"not seen within {seconds} s: {what}")
        time.sleep(0.02)


def running_leaves(count=1):
    """The leaves, as soon as there are so many and a guest runs in each beside its init."""

    def look():
        found = leaves()
        return len(found) == count and all(len(members(leaf)) >= 2 for leaf in found) and found

    return wait_until(look, f"{count} leaves with init and guest")


def nothing_left(known=(), seconds=PATIENCE):
    """Waits until no run has left a process or a cgroup. Known processes, as a server, may stay."""
    end = time.monotonic() + seconds
    while True:
        left = leaves() + strangers(known)
        if not left:
            return
        if time.monotonic() > end:
            raise Wrong(f"left after {seconds} s: {', '.join(left)}")
        time.sleep(0.05)


def no_scope_left(seconds=PATIENCE):
    """Waits until systemd has trimmed the scopes of servers that have ended."""
    wait_until(lambda: not scopes() and not cgroups("mcp-sandbox"), "the end of scopes", seconds)


class Samples(list):
    """What `look` gives, again and again, while the block runs."""

    def __init__(self, look, pause=0.1):
        super().__init__()
        self.look, self.pause = look, pause
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.sample)

    def sample(self):
        while not self.over.is_set():
            self.append(self.look())
            self.over.wait(self.pause)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
