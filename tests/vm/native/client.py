"""Calls to a server, as an MCP client makes them."""

import os
import tempfile
import time
from types import SimpleNamespace
from typing import NamedTuple

from checking import Wrong, expect
from machine import PATIENCE, SERVER
from server import Server, to_result

NATIVE = "native (rootfs: this machine's /usr, read-only)"
# For what is not about the processor's limit: the emulated machine is slow enough without it.
FAST = {"CPU_PCT": 200}
WORK = tempfile.mkdtemp(prefix="native-")
# What the client of the cases wants to know of its surroundings.
PLACE = SimpleNamespace(work=WORK, leak_fd=os.open(WORK, os.O_RDONLY | os.O_DIRECTORY))


def client_environment():
    """What MCP clients pass on at least, and at most."""
    names = "HOME LOGNAME PATH SHELL TERM USER".split()
    return {name: os.environ.get(name, "dumb") for name in names}


class Call(NamedTuple):
    """A call on its way."""

    id: object
    started: float
    timeout: int


class Client:
    """A server of its own, to be used in a `with` block."""

    def __init__(self, environment=(), **settings):
        env = {**client_environment(), **dict(environment)}
        env.update({"VESTIBULE_" + name: str(value) for name, value in settings.items()})
        self.server = Server([SERVER], env, PLACE, os.path.join(WORK, "stderr"))
        self.pid = self.server.proc.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(PATIENCE)

    def start(self, language, code, timeout=30):
        arguments = {"language": language, "code": code, "timeout_seconds": timeout}
        params = {"name": "run_code", "arguments": arguments}
        return Call(self.server.send("tools/call", params), time.monotonic(), timeout)

    def finish(self, call):
        """The answer: a Result of the cases, with the facts of `_meta` beside the text."""
        message = self.server.wait(call.id, call.timeout + PATIENCE)
        if message is None:
            raise Wrong("the call was not answered")
        answer = to_result(message, time.monotonic() - call.started)
        answer.facts = message.get("result", {}).get("_meta", {}).get("vestibule/run", {})
        answer.used = answer.facts.get("usage") or {}
        answer.first = answer.text.partition("\n")[0]
        return answer

    def call(self, language, code, timeout=30):
        return self.finish(self.start(language, code, timeout))

    def cancel(self, call):
        self.server.notify("notifications/cancelled", {"requestId": call.id})

    def answers(self):
        """Whether the next call is answered as if nothing had been."""
        is_native(self.call("bash", "echo alive"), "alive")


def is_native(answer, stdout=None):
    expect(answer.isolation == NATIVE, f"isolation: {answer.text}")
    expect(stdout is None or answer.stdout == stdout, f"stdout: {answer.text}")


def is_out_of_memory(answer, mib=256):
    head = f"[out of memory: the kernel ended the sandbox at its {mib} MiB limit]"
    expect(answer.first == head, f"first line: {answer.text}")
    expect(answer.exit_code == 137, f"exit code: {answer.text}")
    is_measured(answer)


def is_measured(answer):
    """Whether every value of the usage is there, in the text and beside it."""
    names = ("wall_ms", "cpu_ms", "mem_peak_bytes", "pids_peak")
    text = answer.usage or ""
    said = all(f"{name} " in text for name in ("wall", "cpu", "mem_peak", "pids_peak"))
    told = all(answer.used.get(name) for name in names)
    expect(said and told and "not measured" not in text, f"{answer.text} {answer.used}")
