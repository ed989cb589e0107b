"""The limits are really in force, read from outside while a run lasts."""

import os

from checking import check, expect
from client import Client, is_native
from machine import cgroup_of, helper_of, home_of, members, read, running_leaves, runs_of

LOOK = "cat /proc/self/cgroup; sleep 2"
SHOULD_BE = {
    "memory.max": "268435456",
    "memory.swap.max": "0",
    "memory.oom.group": "1",
    "cpu.max": "75000 100000",
    "pids.max": "128",
}
CHANGED = {"MEM_MB": 300, "CPU_PCT": 40, "PIDS_MAX": 60}
SHOULD_BE_CHANGED = {
    **SHOULD_BE,
    "memory.max": str(300 << 20),
    "cpu.max": "40000 100000",
    "pids.max": "60",
}


@check("limits-default", {}, SHOULD_BE)
@check("limits-changed", CHANGED, SHOULD_BE_CHANGED)
def in_force(settings, wanted):
    with Client(**settings) as client:
        call = client.start("bash", LOOK)
        [leaf] = running_leaves()
        found = {name: read(leaf, name) for name in wanted}
        above = [read(folder, "memory.max") for folder in (runs_of(leaf), home_of(leaf))]
        # The guest sees itself at the root, not where the host has put it.
        is_native(client.finish(call), "0::/")
    expect(found == wanted, f"{found}")
    together = 4 * int(wanted["memory.max"])  # as many as may run at once
    expect(above == [str(together), "max"], f"all runs together, and the scope: {above}")


@check("limits-hold-the-sandbox-alone")
def members_of_the_leaf():
    with Client() as client:
        call = client.start("bash", LOOK)
        [leaf] = running_leaves()
        inside, helper = members(leaf), helper_of(leaf)
        parents = {pid: parent_of(pid) for pid in inside}
        ours = [cgroup_of(pid) for pid in (client.pid, helper)]
        client.finish(call)
    expect(not {client.pid, helper} & set(inside), f"{client.pid} or {helper} is among {inside}")
    inits = [pid for pid in inside if parents[pid] == helper]
    expect(len(inits) == 1, f"the helper {helper} has not one child among {parents}")
    expect(any(parents[pid] == inits[0] for pid in inside), f"init has no child among {parents}")
    supervisors = os.path.join(home_of(leaf), "mcp-sandbox-supervisors")
    for own in ours:
        expect(own == "0::" + supervisors[len("/sys/fs/cgroup") :], f"{own} is not {supervisors}")


def parent_of(pid):
    try:
        return int(read("/proc", pid, "stat").rpartition(")")[2].split()[1])
    except OSError:  # it has ended, as the code's `cat` does
        return None


@check("limits-raised-during-the-run", "memory.max", "memory")
@check("limits-without-a-kill-of-all", "memory.oom.group", "memory")
@check("limits-of-cpu-raised-during-the-run", "cpu.max", "cpu")
@check("limits-of-processes-raised-during-the-run", "pids.max", "pids")
def raised(file, lost):
    """Any program of the user's may do that: the result must not say that the limit held."""
    with Client() as client:
        call = client.start("bash", LOOK)
        [leaf] = running_leaves()
        with open(os.path.join(leaf, file), "w") as f:
            f.write("0" if file == "memory.oom.group" else "max")
        is_taken_back(client.finish(call), lost)
        client.answers()


@check("limits-taken-away-during-the-run")
def taken_away():
    with Client() as client:
        call = client.start("bash", LOOK)
        [leaf] = running_leaves()
        with open(os.path.join(runs_of(leaf), "cgroup.subtree_control"), "w") as f:
            f.write("-memory -pids")
        answer = client.finish(call)
        is_taken_back(answer, "memory, pids")
        expect("mem_peak and pids_peak not measured: its controller was taken away during the run" in answer.text, answer.text)
        client.answers()


def is_taken_back(answer, lost):
    line = (
        f"native-degraded (limits not applied: {lost}; changed or taken away during the run: {lost}; "
        "rootfs: this machine's /usr, read-only)"
    )
    expect(answer.isolation == line, answer.text)
    expect(answer.stdout == "0::/", answer.text)
