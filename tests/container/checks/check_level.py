"""The line says what holds, in every language, and the workspace is the person's."""

import os

from checking import check, expect
from host import KIND, MEASURED, PERSON, ROOTLESS, SLOW, WORKSPACE, Client, is_contained, nothing_left

HELLO = {"python": 'print("hello")', "bash": "echo hello", "node": 'console.log("hello")'}

BUSY = """
import time
b = bytearray(64 << 20)
b[::4096] = b[::4096]
while time.process_time() < 0.5: pass
"""


@check("level")
def level():
    with Client() as client:
        for language, code in HELLO.items():
            answer = client.call(language, code)
            is_contained(answer, "hello")
            expect(answer.stderr == "", f"stderr: {answer.text}")
            expect(ROOTLESS or answer.isolation == "container", f"{language}: {answer.text}")
            expect(answer.facts.get("backend") == KIND.partition("-")[0], str(answer.facts))
        nothing_left()


@check("level-usage")
def usage():
    with Client() as client:
        answer = client.call("python", BUSY)
        if not MEASURED:
            reason = "cpu, mem_peak and pids_peak not measured: not readable from outside a container"
            expect(reason in answer.usage, answer.usage)
            return
        expect(500 <= answer.used["cpu_ms"] < 5000 * SLOW, answer.text)
        expect(64 << 20 <= answer.used["mem_peak_bytes"] < 200 << 20, answer.text)
        # Its init, the timer with its sleep, and the code.
        expect(2 <= answer.used["pids_peak"] <= 8, answer.text)
        for language, code in (("bash", "sleep 60"), ("bash", "yes")):
            answer = client.call(language, code, 2 * SLOW)
            expect(answer.used["cpu_ms"] > 0 and answer.used["mem_peak_bytes"] > 0, answer.text)


@check("workspace")
def workspace():
    path = os.path.join(WORKSPACE, "made-inside")
    with Client() as client:
        is_contained(client.call("bash", "umask; echo x >made-inside; stat -c %a made-inside"), "0022\n644")
        expect(os.stat(path).st_uid == PERSON.pw_uid, "the file belongs to another user")
        is_contained(client.call("bash", "cat made-inside; rm made-inside"), "x")
    hidden = [name for name in os.listdir(WORKSPACE) if name.startswith(".vestibule")]
    expect(not hidden, f"left in the workspace: {hidden}")


@check("workspace-read-only")
def workspace_read_only():
    with Client(WORKSPACE_RO="on") as client:
        answer = client.call("bash", "echo x >/workspace/x")
        is_contained(answer)
        expect(answer.exit_code == 1 and "Read-only" in answer.stderr, answer.text)
