"""What a cgroup costs, as multiples of starting /bin/true: the machine is emulated, so that times in
themselves say nothing."""

import os
import re
import statistics
import subprocess
import time

from checking import check, expect, figure
from client import Client, is_native
from machine import JAIL

STEP = r"^supervisor +%s +([\d.]+) µs  ok$"


def taken(action, times):
    """The median time in milliseconds."""
    values = []
    for _ in range(times):
        start = time.monotonic()
        action()
        values.append((time.monotonic() - start) * 1000)
    return statistics.median(values)


def spawn():
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


def steps(*names):
    """The times of these steps of making a sandbox, with a scope of its own each time."""
    said = subprocess.run([JAIL, "--check", "--explain"], stdout=subprocess.PIPE, text=True).stdout
    found = [re.search(STEP % name, said, re.M) for name in names]
    expect(all(found), said)
    return [float(step[1]) / 1000 for step in found]


@check("figures-of-cost")
def costs():
    true = taken(spawn, 20)
    figure(f"starting /bin/true: {true:.1f} ms, the unit of the following")
    rounds = [steps("find-cgroup", "make-cgroup") for _ in range(5)]
    for name, values in zip(("find-cgroup with a scope", "make-cgroup"), zip(*rounds)):
        figure(f"{name}: {statistics.median(values) / true:.2f} x true (median of 5)")
    firsts, laters = [], []
    for _ in range(3):
        with Client() as client:
            firsts.append(taken(lambda: is_native(client.call("bash", "true")), 1))
            laters += [taken(lambda: is_native(client.call("bash", "true")), 1) for _ in range(4)]
    figure(f"first run_code of a server: {statistics.median(firsts) / true:.1f} x true (median of 3)")
    figure(f"later run_code of a server: {statistics.median(laters) / true:.1f} x true (median of 12)")
