"""Calls to a server in the machine."""

import os
import tempfile

from calls import Caller, Place, client_environment
from checking import expect
from machine import PATIENCE, SERVER

NATIVE = "native (rootfs: this machine's /usr, read-only)"
IN_IMAGE = "native"
# For what is not about the processor's limit: the emulated machine is slow enough without it.
FAST = {"CPU_PCT": 200}
WORK = tempfile.mkdtemp(prefix="native-")
PLACE = Place(WORK)


class Client(Caller):
    """A server of its own, to be used in a `with` block."""

    def __init__(self, environment=(), **settings):
        env = {**client_environment(), **dict(environment)}
        env.update({"VESTIBULE_" + name: str(value) for name, value in settings.items()})
        super().__init__([SERVER], env, PLACE, PATIENCE)

    def answers(self):
        """Whether the next call is answered as if nothing had been."""
        is_native(self.call("bash", "echo alive"), "alive")


def is_native(answer, stdout=None, level=NATIVE):
    expect(answer.isolation == level, f"isolation: {answer.text}")
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
