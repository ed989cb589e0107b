"""The contestants: each gives a function that makes one run and returns its milliseconds.

All of them run the interpreter in the environment that a guest has. It decides what an interpreter
does at its start (bash loads the locale that LANG names), and that is no cost of a sandbox.
"""

import json
import os
import subprocess
import time

SCRIPTS = {"python": "print(1)\n", "bash": "echo 1\n", "node": "console.log(1)\n"}
INTERPRETERS = {
    "python": "/usr/bin/python3",
    "bash": "/usr/bin/bash",
    "node": "/usr/bin/node",
}
GUEST_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "USER": "sandbox",
    "LOGNAME": "sandbox",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PYTHONUNBUFFERED": "1",
}


class Wrong(Exception):
    """A contestant did not do its work; its time would mean nothing."""


def spawn(argv, expected=b"1\n", env=None):
    """Starts a program, reads all it prints, and waits for its end: milliseconds."""
    start = time.perf_counter()
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=env
    )
    took = (time.perf_counter() - start) * 1000
    if done.returncode != 0 or expected not in done.stdout:
        raise Wrong(f"{argv}: exit code {done.returncode}, {done.stderr[-300:]!r}")
    return took


def script_file(folder, language):
    path = os.path.join(folder, language)
    with open(path, "w") as f:
        f.write(SCRIPTS[language])
    return path


def bare(folder, language):
    argv = [INTERPRETERS[language], script_file(folder, language)]
    return lambda: spawn(argv, env=GUEST_ENVIRONMENT)


def bubblewrap(folder, language):
    """What a careful user would write by hand; it has no syscall filter and no limits."""
    script = script_file(folder, language)
    argv = "bwrap --unshare-all --die-with-parent --new-session --ro-bind /usr /usr".split()
    for name in ("bin", "sbin", "lib", "lib64"):
        argv += ["--symlink", f"usr/{name}", f"/{name}"]
    argv += "--ro-bind /etc/ld.so.cache /etc/ld.so.cache --proc /proc --dev /dev".split()
    argv += "--tmpfs /tmp --chdir /workspace --cap-drop ALL --clearenv".split()
    argv += ["--bind", folder, "/workspace", "--ro-bind", script, "/script"]
    for name, value in GUEST_ENVIRONMENT.items():
        argv += ["--setenv", name, value]
    argv += [INTERPRETERS[language], "/script"]
    return lambda: spawn(argv)


def jail(folder, language, program):
    limits = {"memory_mib": 256, "cpu_percent": 75, "pids_max": 128, "tmpfs_mib": 64}
    spec = {
        "prepare": {
            "rootfs": "host",
            "workspace": folder,
            "workspace_read_only": False,
            "limits": limits,
            "environment": [],
        },
        "execute": {
            "language": language,
            "code": SCRIPTS[language],
            "timeout_seconds": 10,
            "output_bytes": 20000,
        },
    }
    path = os.path.join(folder, f"{language}.json")
    with open(path, "w") as f:
        json.dump(spec, f)
    return lambda: spawn([program, "--spec", path])


class Server:
    """A server with an open session, over which calls are timed."""

    def __init__(self, program, settings=None):
        start = time.perf_counter()
        self.process = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | (settings or {}),
        )
        self.last_id = 0
        info = {"name": "bench", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        self.request("initialize", hello)
        self.opened_ms = (time.perf_counter() - start) * 1000
        self.write({"method": "notifications/initialized"})

    def write(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.last_id += 1
        self.write({"id": self.last_id, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise Wrong("the server is gone")
            message = json.loads(line)
            if message.get("id") == self.last_id:
                return message

    def run(self, language, code=None):
        arguments = {"language": language, "code": code or SCRIPTS[language]}
        start = time.perf_counter()
        answer = self.request("tools/call", {"name": "run_code", "arguments": arguments})
        took = (time.perf_counter() - start) * 1000
        text = answer["result"]["content"][0]["text"]
        if not text.startswith("exit_code: 0\nstdout:\n1\n"):
            raise Wrong(text)
        return took

    def rss_mb(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            line = next(line for line in f if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
