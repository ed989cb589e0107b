"""What a run is said to have used is what it must have cost, and is there however it ended."""

import re
import time

from checking import check, expect, figure
from client import FAST, Client, is_measured, is_native, is_out_of_memory
from machine import nothing_left, strangers

BURN = """import time
start = time.process_time()
while time.process_time() < start + 3: pass
print(time.process_time() - start)
"""
TOUCH = "b = bytearray(100 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\n"
SLEEPS = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1 & done; wait"
WORKLOADS = {
    "python hello": ("python", "print('hello')"),
    "python touching 100 MiB": ("python", TOUCH),
    "bash with 10 sleeps": ("bash", SLEEPS),
}
MIB = 1 << 20


def is_near(got, wanted, what):
    expect(abs(got - wanted) <= wanted / 10, f"{what}: {got} instead of {wanted}")


@check("usage-of-cpu")
def cpu():
    with Client(**FAST) as client:
        empty = sorted(client.call("python", "import time").used["cpu_ms"] for _ in range(3))[1]
        answer = client.call("python", BURN)
    burnt = float(answer.stdout) * 1000
    figure(f"cpu: {answer.used['cpu_ms'] - empty} ms more than an empty run, burnt {burnt:.0f} ms")
    is_near(answer.used["cpu_ms"] - empty, burnt, "cpu")


@check("usage-of-memory")
def memory():
    with Client(**FAST) as client:
        # The first of them also pays for the interpreter's part of the page cache.
        empty = min(client.call("python", "pass").used["mem_peak_bytes"] for _ in range(3))
        answer = client.call("python", TOUCH)
    is_near(answer.used["mem_peak_bytes"] - empty, 100 * MIB, "mem_peak")
    in_text = re.search(r"mem_peak ([\d.]+) MiB \(whole sandbox: ", answer.usage)
    expect(in_text, answer.usage)
    expect(abs(float(in_text[1]) - answer.used["mem_peak_bytes"] / MIB) <= 0.05, answer.usage)


@check("usage-of-processes")
def pids():
    with Client(**FAST) as client:
        answer = client.call("bash", SLEEPS)
    expect(answer.used["pids_peak"] == 12 and "pids_peak 12" in answer.usage, answer.text)


@check("usage-after-a-timeout")
def after_a_timeout():
    with Client(**FAST) as client:
        answer = client.call("bash", "sleep 60", 1)
        expect(answer.timed_out and answer.exit_code == -1, answer.text)
        is_measured(answer)


@check("usage-after-out-of-memory")
def after_out_of_memory():
    with Client(MEM_MB=64, **FAST) as client:
        answer = client.call("python", TOUCH)
        is_out_of_memory(answer, 64)
        expect(60 * MIB <= answer.used["mem_peak_bytes"] <= 64 * MIB, answer.text)


@check("usage-after-an-overflow")
def after_an_overflow():
    with Client(**FAST) as client:
        answer = client.call("bash", "yes")
        expect(answer.first == "[stopped: stdout passed twice the output cap]", answer.text)
        expect(answer.exit_code == -1, answer.text)
        is_measured(answer)


@check("usage-of-a-cancelled-run-is-nobody's")
def after_a_cancellation():
    with Client(**FAST) as client:
        client.answers()
        call = client.start("bash", "sleep 60")
        time.sleep(0.7)
        expect(len(strangers({client.pid})) > 0, "the run was not seen")
        client.cancel(call)
        nothing_left({client.pid})
        client.answers()


@check("usage-figures")
def figures():
    with Client(**FAST) as client:
        for name, (language, code) in WORKLOADS.items():
            answers = [client.call(language, code) for _ in range(5)]
            for answer in answers:
                is_native(answer)
                is_measured(answer)
            used = [answer.used for answer in answers]
            figure(
                f"{name}, 5 runs: mem_peak {spread(used, 'mem_peak_bytes', MIB)} MiB, "
                f"cpu {spread(used, 'cpu_ms')} ms, pids_peak {spread(used, 'pids_peak')}"
            )


def spread(used, name, unit=1):
    values = [use[name] / unit for use in used]
    digits = 1 if unit > 1 else 0
    return f"{min(values):.{digits}f}..{max(values):.{digits}f}"
