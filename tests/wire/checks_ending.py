"""End of input, signals, and a client that vanishes."""

import os
import signal
import time

from common import META
from context import check


def ends(c, s, act, what, seconds=1, status=0):
    since = time.monotonic()
    act()
    rc = s.exit_status(seconds)
    c.remark(f"{what}: ended after {(time.monotonic() - since) * 1000:.0f} ms")
    if status is not None:
        c.expect(rc == status, f"exit status {status} after {what}", rc)
    s.gone_within(seconds, since)


@check("eof-at-once")
def eof_at_once(c):
    """end of input before anything, after the handshake, after half a line: exit 0 at once"""
    s = c.server(handshake=False)
    ends(c, s, s.close_stdin, "end of input before anything")
    s = c.server()
    ends(c, s, s.close_stdin, "end of input after the handshake")
    s = c.server()
    s.raw(b'{"jsonrpc":"2.0","id":5,"meth', 5)
    ends(c, s, s.close_stdin, "end of input in mid-line")


@check("signals-idle")
def signals_idle(c):
    """SIGINT, SIGTERM and SIGHUP end an idle server with exit 0"""
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for handshake in (False, True):
            s = c.server(handshake=handshake)
            if not handshake:
                s.ask("server/discover", {}, meta=META)
            ends(c, s, lambda s=s, sig=sig: s.p.send_signal(sig), sig.name)


def mid_run(name, act, what, seconds=1, status=0):
    """Registers a check that ends the server in the middle of a run."""

    def body(c):
        s = c.server()
        s.start_busy()
        ends(c, s, lambda: act(s), what, seconds, status)

    body.__doc__ = f"{what} during a run: process and run are gone within {seconds} s"
    check(name)(body)


mid_run("eof-mid-run", lambda s: s.close_stdin(), "end of input")
mid_run("sigint-mid-run", lambda s: s.p.send_signal(signal.SIGINT), "SIGINT")
mid_run("sigterm-mid-run", lambda s: s.p.send_signal(signal.SIGTERM), "SIGTERM")
mid_run("sighup-mid-run", lambda s: s.p.send_signal(signal.SIGHUP), "SIGHUP")
mid_run(
    "sigkill-mid-run", lambda s: s.p.send_signal(signal.SIGKILL), "SIGKILL", seconds=2, status=None
)


@check("client-vanishes")
def client_vanishes(c):
    """a client that dies (all pipes closed, answers unread) takes the server and its runs along"""
    s = c.server()
    s.start_busy()

    def vanish():
        for f in (s.p.stdin, s.p.stdout, s.p.stderr):
            fd = os.open("/dev/null", os.O_RDWR)
            os.dup2(fd, f.fileno())  # closes our end even while a thread reads it
            os.close(fd)

    ends(c, s, vanish, "all pipes closed", seconds=1, status=None)
    s.violations.clear()
