"""The processor's limit: busy code gets its part of it, however many processes it has."""

import re

from checking import check, expect, figure
from client import Client, is_native

BUSY = "while :; do :; done"
FOUR = "for i in 1 2 3; do (while :; do :; done) & done; while :; do :; done"
SECONDS = 6
HIT = r"^limits hit: cpu \(throttled in (\d+) of (\d+) periods of 100 ms\)$"


@check("cpu-of-one-busy-process", 1, BUSY, 75)
@check("cpu-of-four-busy-processes", 4, FOUR, 75)
@check("cpu-of-more-than-one-core", 4, FOUR, 150)
def throttled(processes, code, percent):
    wanted = percent / 100
    with Client(CPU_PCT=percent) as client:
        answer = client.call("bash", code, SECONDS)
    is_native(answer)
    expect(answer.first == f"[timed out after {SECONDS} s and was terminated]", answer.text)
    share = answer.used["cpu_ms"] / answer.used["wall_ms"]
    hit = re.search(HIT, answer.text, re.M)
    expect(hit, answer.text)
    throttled_in, periods = map(int, hit.groups())
    busy = f"{processes} busy, {wanted:.2f} of a core allowed"
    figure(f"{busy}: {share:.3f} used, {hit.group()}")
    expect(abs(share / wanted - 1) <= 0.05 / 0.75, f"{share:.3f} of a core: {answer.text}")
    # Under way the limit is run into in nearly every period.
    expect(periods / 2 <= throttled_in <= periods, hit.group())


@check("cpu-of-little-work-is-not-throttled")
def unhindered():
    with Client(CPU_PCT=200) as client:
        client.answers()
        answer = client.call("bash", "sleep 1")
    expect("limits hit" not in answer.text, answer.text)
