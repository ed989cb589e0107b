"""Every way in which a run ends."""

import signal
import subprocess
import time

from checking import check, expect
from host import AS_PERSON, SERVER, SLOW, Client, containers, environment, is_contained, nothing_left, wait_until


@check("ends-with-its-own-exit-code")
def exit_codes():
    with Client() as client:
        for code in (0, 3, 124, 125, 126, 127, 137, 255):
            answer = client.call("bash", f"exit {code}")
            is_contained(answer)
            expect(answer.exit_code == code and not answer.is_error, answer.text)
        nothing_left()


@check("ends-at-its-timeout")
def timeout():
    with Client() as client:
        client.call("bash", "true")
        answer = client.call("python", "print('before')\nimport time; time.sleep(60)", 2)
        is_contained(answer, "before")
        expect(answer.first == "[timed out after 2 s and was terminated]", answer.text)
        expect(answer.exit_code == -1 and answer.wall < 5 * SLOW, f"{answer.wall}: {answer.text}")
        nothing_left()


@check("ends-at-its-timeout-deaf-to-signals")
def deaf():
    code = "for i in 1 2 3; do (trap '' TERM INT HUP; sleep 60)& done; trap '' TERM INT HUP; kill -STOP $PPID; sleep 60"
    with Client() as client:
        answer = client.call("bash", code, 2)
        expect(answer.first.startswith("[timed out after 2 s"), answer.text)
        nothing_left()


@check("ends-by-a-flood")
def flood():
    with Client() as client:
        answer = client.call("bash", "yes", 30)
        is_contained(answer)
        expect("passed twice the output cap" in answer.first and answer.wall < 15 * SLOW, answer.text[:200])
        nothing_left()


@check("ends-with-its-main-process")
def background():
    with Client() as client:
        answer = client.call("bash", "echo first; (sleep 60; echo late) & disown", 30)
        is_contained(answer, "first")
        expect(answer.wall < 15 * SLOW, f"{answer.wall}")
        nothing_left()


@check("ends-when-cancelled")
def cancelled():
    with Client() as client:
        client.call("bash", "true")
        call = client.start("bash", "sleep 60", 60)
        wait_until(containers, 20, "no container came")
        client.cancel(call)
        nothing_left()
        is_contained(client.call("bash", "echo next"), "next")


@check("ends-with-the-end-of-input")
def end_of_input():
    with Client() as client:
        client.call("bash", "true")
        client.start("bash", "sleep 60", 60)
        wait_until(containers, 20, "no container came")
        start = time.monotonic()
        client.server.proc.stdin.close()
        client.server.proc.wait(10 * SLOW)
        expect(time.monotonic() - start < 2 * SLOW, "the server took its time")
    nothing_left()


@check("ends-with-the-end-of-input-whatever-the-engine-is-at")
def end_of_input_while_it_starts():
    # Podman refuses to remove a container that ends meanwhile: the server has gone by then.
    for moment in range(6):
        with Client() as client:
            client.call("bash", "true")
            client.start("bash", "sleep 60", 60)
            time.sleep((0.1 + 0.15 * moment) * SLOW)
            client.server.proc.stdin.close()
            client.server.proc.wait(10 * SLOW)
        nothing_left()


@check("ends-on-the-command-line")
def command_line():
    def run(code, **more):
        command = [*AS_PERSON, SERVER, "run", "bash", "-"]
        return subprocess.run(command, input=code, text=True, env=environment(), cwd="/", stderr=subprocess.PIPE, **more)

    done = run("echo out; echo err >&2; exit 7", stdout=subprocess.PIPE)
    expect(done.returncode == 7 and done.stdout == "out\n", f"{done}")
    with open("/dev/full", "w") as full:
        done = run("echo out", stdout=full)
    expect(done.returncode != 0 and "No space left" in done.stderr, f"{done}")
    nothing_left()


@check("ends-with-the-interpreter")
def killed():
    with Client() as client:
        answer = client.call("python", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        expect(answer.exit_code == 128 + signal.SIGSEGV, answer.text)
        # Its own timer goes, and ours does not.
        answer = client.call("bash", "kill -9 -1; kill -9 $PPID; echo alive; sleep 60", 3)
        is_contained(answer, "alive")
        expect(answer.first.startswith("[timed out after 3 s"), answer.text)
        nothing_left()


@check("ends-four-at-once")
def four():
    with Client() as client:
        calls = [client.start("bash", f"sleep 1; echo {n}") for n in range(4)]
        for n, call in enumerate(calls):
            is_contained(client.finish(call), str(n))
        nothing_left()
