"""Bombs of processes and threads stop at the limit, and the machine does not notice."""

import os

from checking import check, expect
from client import FAST, Client, is_native
from machine import Samples, memory

BASH = "f() { f | f & }; f 2>/dev/null; sleep 3"
PYTHON = """import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.1)
"""
THREADS = """import threading, time
try:
    while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
except RuntimeError as error:
    print(error)
"""


def state():
    """How many processes there are, and how much memory is left."""
    return sum(map(str.isdigit, os.listdir("/proc"))), memory("MemAvailable")[0]


@check("bomb-of-forks-in-bash", "bash", BASH)
@check("bomb-of-forks-in-python", "python", PYTHON)
@check("bomb-of-threads", "python", THREADS)
def bomb(language, code):
    with Client(**FAST) as client:
        client.answers()
        before = state()
        with Samples(state) as samples:
            answer = client.call(language, code, 3)
        client.answers()
        after = state()
    is_native(answer)
    hits = [line for line in answer.text.splitlines() if line.startswith("limits hit: ")]
    expect(len(hits) == 1 and "pids (128)" in hits[0], answer.text)
    expect(answer.used["pids_peak"] <= 128, answer.text)
    most, least = max(s[0] for s in samples), min(s[1] for s in samples)
    # A few more than the run's: the machine's own come and go.
    expect(most <= before[0] + 128 + 20, f"processes: {before[0]} before, up to {most}")
    expect(after[0] <= before[0] + 20, f"processes: {before[0]} before, {after[0]} after")
    expect(least >= before[1] - (320 << 20), f"memory: {before[1]} before, down to {least}")
    expect(after[1] >= before[1] - (64 << 20), f"memory: {before[1]} before, {after[1]} after")
