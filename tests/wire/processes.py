"""Which processes exist, and which of them belong to one server."""

import os

from common import cut, read


def processes():
    """pid -> (parent, session, start time), zombies left out"""
    table = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            f = open(f"/proc/{pid}/stat", "rb").read().rpartition(b")")[2].split()
        except OSError:
            continue
        if f[0] not in (b"Z", b"X"):
            table[int(pid)] = (int(f[1]), int(f[3]), int(f[19]))
    return table


def mentions_mark(pid, mark):
    for name in ("cmdline", "environ"):
        try:
            if mark in open(f"/proc/{pid}/{name}", "rb").read():
                return True
        except OSError:
            pass
    return False


def command(pid):
    """pid and command line, for messages"""
    line = (read(f"/proc/{pid}/cmdline") or b"").replace(b"\0", b" ")
    return f"{pid} {cut(line.decode('utf-8', 'replace'), 60)}"
