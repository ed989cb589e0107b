"""What each way into a cgroup would cost a call, beside spawning `true`: why the server is moved once.

Speaks to systemd over one open connection, as libsystemd does it, so that no start of a program is
counted.
"""

import ctypes
import os
import statistics
import time

from checking import Skip, check, figure
from machine import cgroup_of, wait_until

TIMES = 20
NAME = f"ways-{os.getpid()}"
LIMITS = {
    "memory.max": "268435456",
    "memory.swap.max": "0",
    "memory.oom.group": "1",
    "cpu.max": "75000 100000",
    "pids.max": "128",
}


class Systemd:
    """The user's systemd over the session bus."""

    def __init__(self):
        try:
            self.functions = ctypes.CDLL("libsystemd.so.0")
        except OSError as error:
            raise Skip(f"no libsystemd: {error}") from None
        self.bus = ctypes.c_void_p()
        self.do("sd_bus_open_user", ctypes.byref(self.bus))

    def do(self, function, *arguments):
        code = getattr(self.functions, function)(*arguments)
        if code < 0:
            raise OSError(-code, f"{function}: {os.strerror(-code)}")

    def call(self, method, fill):
        message, reply = ctypes.c_void_p(), ctypes.c_void_p()
        names = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1"]
        names += ["org.freedesktop.systemd1.Manager", method]
        names = [ctypes.c_char_p(name.encode()) for name in names]
        self.do("sd_bus_message_new_method_call", self.bus, ctypes.byref(message), *names)
        fill(message)
        self.do("sd_bus_call", self.bus, message, ctypes.c_uint64(0), None, ctypes.byref(reply))

    def append(self, message, types, *values):
        texts = [ctypes.c_char_p(v.encode()) if isinstance(v, str) else v for v in values]
        self.do("sd_bus_message_append", message, ctypes.c_char_p(types.encode()), *texts)

    def scope(self, name, pid):
        def fill(message):
            self.append(message, "ss", name, "fail")
            self.do("sd_bus_message_open_container", message, ctypes.c_char(b"a"), b"(sv)")
            self.append(message, "(sv)", "PIDs", "au", 1, ctypes.c_uint(pid))
            self.append(message, "(sv)", "Delegate", "b", 1)
            self.append(message, "(sv)", "CollectMode", "s", "inactive-or-failed")
            self.do("sd_bus_message_close_container", message)
            self.append(message, "a(sa(sv))", 0)

        self.call("StartTransientUnit", fill)

    def attach(self, name, below, pid):
        def fill(message):
            self.append(message, "ssau", name, below, 1, ctypes.c_uint(pid))

        self.call("AttachProcessesToUnit", fill)


def true():
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(pid, 0)


class Sleeper:
    """A process to be moved."""

    def __enter__(self):
        self.pid = os.posix_spawn("/bin/sleep", ["sleep", "300"], {})
        return self.pid

    def __exit__(self, *_):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


def in_cgroup(pid, name):
    while name not in cgroup_of(pid):
        time.sleep(0.0005)


def own_leaf(path):
    os.mkdir(path)
    for name, value in LIMITS.items():
        for mode in ("w", "r"):
            with open(os.path.join(path, name), mode) as f:
                f.write(value) if mode == "w" else f.read()
    os.rmdir(path)


def timed(act):
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def home_of(systemd, keeper):
    """A delegated scope in which others can be made."""
    systemd.scope(f"{NAME}.scope", keeper)
    wait_until(lambda: NAME in cgroup_of(keeper), "the scope")
    folder = "/sys/fs/cgroup" + cgroup_of(keeper).split("::")[1]
    os.mkdir(f"{folder}/keeper")
    for name, value in (("keeper/cgroup.procs", str(keeper)), ("cgroup.subtree_control", "+memory +cpu +pids")):
        with open(os.path.join(folder, name), "w") as f:
            f.write(value)
    return folder


@check("figures-of-ways")
def ways():
    systemd = Systemd()
    costs = {"true": [], "a scope": [], "attaching to a scope": [], "mkdir, limits, rmdir": []}
    with Sleeper() as keeper:
        home = home_of(systemd, keeper)
        for number in range(TIMES):
            costs["true"].append(timed(true))
            with Sleeper() as pid:
                name = f"{NAME}-{number}.scope"
                act = lambda: (systemd.scope(name, pid), in_cgroup(pid, name))  # noqa: E731
                costs["a scope"].append(timed(act))
            with Sleeper() as pid:
                act = lambda: (  # noqa: E731
                    systemd.attach(f"{NAME}.scope", "/keeper", pid),
                    in_cgroup(pid, f"{NAME}.scope"),
                )
                costs["attaching to a scope"].append(timed(act))
            leaf = os.path.join(home, f"leaf-{number}")
            costs["mkdir, limits, rmdir"].append(timed(lambda: own_leaf(leaf)))
    base = statistics.median(costs.pop("true"))
    figure(f"spawning true: {base * 1000:.1f} ms")
    for way, times in costs.items():
        figure(f"{way}: {statistics.median(times) / base:.2f} times spawning true")
