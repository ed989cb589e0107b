"""However a run and its server end, nothing stays: no process, no cgroup, no scope, no failed unit."""

import signal
import time

from checking import check, expect
from client import FAST, Client
from machine import cgroups, leaves, no_scope_left, nothing_left, running_leaves, scopes, units


@check("left-after-success", "echo well", 30)
@check("left-after-failure", "exit 3", 30)
@check("left-after-a-timeout", "sleep 60 & sleep 60", 1)
@check("left-after-a-background-process", "sleep 60 & disown; echo gone", 30)
@check("left-after-an-overflow", "yes", 30)
def after_a_run(code, timeout):
    """The leaf is gone when the answer is there, or right after."""
    with Client(**FAST) as client:
        client.call("bash", code, timeout)
        nothing_left({client.pid})
        expect(len(scopes()) == 1, f"the server lives, its scope does not: {scopes()}")
    nothing_left()
    no_scope_left()


@check("left-after-the-end-of-input", lambda server: server.proc.stdin.close())
@check("left-after-sigterm", lambda server: server.proc.send_signal(signal.SIGTERM))
@check("left-after-sigint", lambda server: server.proc.send_signal(signal.SIGINT))
def after_the_server(end):
    """The server is ended in the middle of a run."""
    with Client(**FAST) as client:
        client.start("bash", "sleep 60 & sleep 60")
        running_leaves()
        end(client.server)
        expect(client.server.proc.wait(60) == 0, f"exit code {client.server.proc.poll()}")
        nothing_left()
    no_scope_left()


@check("left-after-cancellations")
def after_cancellations():
    with Client(**FAST) as client:
        for pause in (0, 0.02, 0.1, 0.3, 0.6):
            call = client.start("bash", "sleep 60")
            time.sleep(pause)
            client.cancel(call)
            nothing_left({client.pid})
        client.answers()
    nothing_left()
    no_scope_left()


@check("all-is-gone-in-the-end")
def after_all():
    nothing_left()
    no_scope_left()
    failed = units("--failed", "--all")
    expect(not failed, f"failed units: {failed}")
    expect(not leaves() + cgroups("mcp-sandbox"), f"{leaves()}")
