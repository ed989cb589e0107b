"""Whatever process of a run is killed, and whenever: nothing of the run remains."""

import os
import random
import signal
import time

from checking import check, expect
from client import FAST, Client
from machine import helper_of, leaves, members, no_scope_left, nothing_left, read, wait_until

LONG = "for i in 1 2 3; do sleep 60 & done; sleep 60"
TIMES = 3


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def children(pid):
    """The processes that any thread of it has started."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            found += map(int, read("/proc", pid, "task", task, "children").split())
        except OSError:  # the thread has ended
            pass
    return found


def helper(client):
    return wait_until(lambda: children(client.pid), "the helper")[0]


def in_the_leaf(number):
    """A process of the only run: 0 is init, which came first."""

    def look():
        inside = [pid for leaf in leaves() for pid in sorted(members(leaf))]
        return len(inside) > number and [inside[number]]

    return wait_until(look, f"process {number} of the run")[0]


def init(_client):
    return in_the_leaf(0)


def guest(_client):
    return in_the_leaf(1)


@check("kill-the-helper", helper)
@check("kill-init", init)
@check("kill-the-guest", guest)
def under_way(victim):
    """The call is answered at once, and so is the next."""
    with Client(**FAST) as client:
        for _ in range(TIMES):
            call = client.start("bash", LONG, 50)
            pid = (in_the_leaf(2), victim(client))[1]
            time.sleep(random.uniform(0, 1))
            kill(pid)
            answer = client.finish(call)
            expect(not answer.timed_out, answer.text)
            nothing_left({client.pid})
            client.answers()
            nothing_left({client.pid})
    no_scope_left()


@check("kill-the-helper-early", helper, 0.05)
@check("kill-init-early", init, 0)
def early(victim, within):
    """As above, but what is killed before any code ran may be replaced by another sandbox."""
    with Client(**FAST) as client:
        for _ in range(TIMES):
            client.answers()
            nothing_left({client.pid})
            call = client.start("bash", "sleep 1 & sleep 1")
            time.sleep(random.uniform(0, within))
            kill(victim(client))
            answer = client.finish(call)
            expect(not answer.timed_out, answer.text)
            nothing_left({client.pid})
        client.answers()
    nothing_left()
    no_scope_left()


@check("kill-the-first-helper-before-it-has-told-of-its-cgroup")
def before_it_has_told():
    """The server then knows neither the cgroup nor the scope that it lies in."""
    with Client(**FAST) as client:
        call = client.start("bash", LONG, 50)
        kill(helper_of(wait_until(leaves, "a leaf")[0]))
        client.finish(call)
        nothing_left({client.pid}, seconds=15)
        client.answers()


@check("kill-the-server-early", 0.05, False)
@check("kill-the-server", 1.5, False)
@check("kill-the-server-in-a-later-call", 0.3, True)
def the_server(within, later):
    for _ in range(TIMES):
        with Client(**FAST) as client:
            if later:
                client.answers()
            client.start("bash", LONG, 50)
            time.sleep(random.uniform(0, within))
            kill(client.pid)
            client.server.proc.wait()
            nothing_left()
    no_scope_left()


@check("kill-the-server-and-the-helper-at-once")
def both():
    """Nobody is left to clear away: the cgroup stays until systemd trims the scope."""
    with Client(**FAST) as client:
        client.start("bash", LONG, 50)
        pid = helper_of(wait_until(leaves, "a leaf")[0])
        kill(client.pid)
        kill(pid)
        client.server.proc.wait()
        nothing_left()
    no_scope_left()
