"""Kernels that lack a file of the cgroup: the helper is told that it is not there.

An outer filter cannot tell files apart, so a library that is preloaded into the helper does
(`hide.c`). What the helper starts does not have it: its environment is composed anew.
"""

import os

from checking import Skip, check, expect
from client import WORK, Client, is_native
from machine import JAIL, PROGRAMS, nothing_left

LIBRARY = os.path.join(PROGRAMS, "hide.so")


def without(name):
    """A helper for which this file is not there."""
    if not os.path.exists(LIBRARY):
        raise Skip("needs hide.so, which no C compiler has made")
    path = os.path.join(WORK, f"jail-without-{name}")
    with open(path, "w") as f:
        f.write(f'#!/bin/sh\nHIDDEN={name} LD_PRELOAD={LIBRARY} exec {JAIL} "$@"\n')
    os.chmod(path, 0o755)
    return path


@check("older-than-5.19-counts-no-peak-of-memory", "memory.peak", "mem_peak", "Linux 5.19+ needed", "pids_peak")
@check("older-than-6.1-counts-no-peak-of-processes", "pids.peak", "pids_peak", "Linux 6.1+ needed", "mem_peak")
def no_peak(file, lost, reason, kept):
    with Client(JAIL=without(file)) as client:
        answer = client.call("bash", "echo ran")
    is_native(answer, "ran")
    expect(f"{lost} not measured: {reason}" in answer.text, answer.text)
    expect(f"{kept} not measured" not in answer.text and kept in answer.text, answer.text)


@check("older-than-5.14-is-ended-by-init")
def no_kill():
    """Without `cgroup.kill` the end of init ends the rest."""
    with Client(JAIL=without("cgroup.kill")) as client:
        answer = client.call("bash", "for i in 1 2 3; do setsid sleep 60 & done; sleep 60", 2)
        expect(answer.first.startswith("[timed out after 2 s"), answer.text)
        is_native(answer)
        nothing_left({client.pid})
        client.answers()
