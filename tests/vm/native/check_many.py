"""Many runs: at once, each with limits of its own, and one after another, without a trace."""

import os

from checking import check, expect
from client import FAST, Client, is_native
from machine import cgroups, leaves, nothing_left, read, running_leaves, runs_of, scopes

HOLD = "x = bytearray(b'x') * (100 << 20)\nimport time\ntime.sleep(4)\nprint('held')"


@check("many-at-once-have-limits-of-their-own")
def at_once():
    """Four of 100 MiB would not fit into one limit of 256 MiB."""
    with Client(MAX_CONCURRENT=4, **FAST) as client:
        calls = [client.start("python", HOLD) for _ in range(4)]
        found = running_leaves(4)
        limits = [(read(leaf, "memory.max"), read(leaf, "pids.max")) for leaf in found]
        for call in calls:
            is_native(client.finish(call), "held")
        homes = {runs_of(leaf) for leaf in found}
        expect(limits == [("268435456", "128")] * 4, f"{limits}")
        expect(len(homes) == 1 and len(scopes()) == 1, f"{homes}")
        nothing_left({client.pid})


@check("many-more-than-fit-wait-for-their-turn")
def waiting():
    with Client(MAX_CONCURRENT=4, **FAST) as client:
        calls = [client.start("bash", "sleep 1; echo ran") for _ in range(8)]
        for call in calls:
            is_native(client.finish(call), "ran")
        nothing_left({client.pid})


@check("many-one-bomb-does-not-touch-its-neighbours")
def neighbours():
    with Client(MAX_CONCURRENT=4, **FAST) as client:
        calm = [client.start("bash", "sleep 4; echo calm") for _ in range(2)]
        running_leaves(2)
        bomb = client.call("python", "held = []\nwhile True: held.append(bytearray(b'x') * (8 << 20))")
        expect(bomb.facts["out_of_memory"], bomb.text)
        for call in calm:
            is_native(client.finish(call), "calm")


@check("many-calls-need-one-scope")
def one_scope():
    with Client(**FAST) as client:
        seen = []
        for _ in range(3):
            client.answers()
            seen.append((scopes(), cgroups("mcp-sandbox-supervisors")))
    expect(all(s == seen[0] for s in seen) and len(seen[0][0]) == 1, f"{seen}")


@check("many-runs-leave-nothing")
def two_hundred():
    with Client(MAX_CONCURRENT=4, **FAST) as client:
        client.answers()
        nothing_left({client.pid})
        descriptors = held(client)
        calls = []
        for number in range(200):
            calls.append(client.start("bash", f"echo {number}"))
            if len(calls) == 4:
                is_native(client.finish(calls[0]), str(number - 3))
                del calls[0]
        for number, call in enumerate(calls, 197):
            is_native(client.finish(call), str(number))
        nothing_left({client.pid})
        expect(not leaves(), f"{leaves()}")
        expect(held(client) == descriptors, f"{descriptors} descriptors, then {held(client)}")
        expect(len(scopes()) == 1, f"{scopes()}")


def held(client):
    return len(os.listdir(f"/proc/{client.pid}/fd"))
