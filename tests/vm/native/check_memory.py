"""Memory of every kind counts, and what passes the limit ends the sandbox and nothing else."""

import os
import subprocess

from checking import Skip, check, expect
from client import FAST, Client, is_measured, is_native, is_out_of_memory
from machine import Samples, cgroups, memory, read, running_leaves, runs_of

MAPPED = "import mmap\nm = mmap.mmap(-1, %d << 20)\nfor i in range(0, len(m), 4096): m[i] = 1\n"
MEMFD = """import os
fd = os.memfd_create("x")
for _ in range(%d): os.write(fd, bytes(1 << 20))
"""
IN_SHM = "with open('/dev/shm/x', 'wb') as f:\n  for _ in range(60): f.write(bytes(1 << 20))\n"
BOMB = "held = []\nwhile True: held.append(bytearray(b'x') * (8 << 20))\n"
CHILD = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BOMB!r}])\n"
FILL_TMP = "dd if=/dev/zero of=/tmp/x bs=1M count=400"
# One run keeps every memfd that others hand to it through a socket in the workspace.
KEEP = """import array, os, socket, time
if os.path.exists("/workspace/s"): os.unlink("/workspace/s")
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.bind("/workspace/s")
server.listen()
server.settimeout(20)
kept = []
try:
    while True:
        connection = server.accept()[0]
        kept.append(socket.recv_fds(connection, 1, 1)[1])
        connection.send(b"1")
except TimeoutError:
    print(len(kept), "kept")
"""
HAND_ON = """import os, socket
fd = os.memfd_create("x")
for _ in range(40): os.write(fd, bytes(1 << 20))
keeper = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
keeper.connect("/workspace/s")
socket.send_fds(keeper, [b"1"], [fd])
keeper.recv(1)
print("handed on")
"""
# The first of a run's lines is written before the file is in the way of anything.
PAGE_CACHE = """
dd if=/dev/zero of=/workspace/big bs=1M count=320 2>&1 && cat /workspace/big >/dev/null
rm /workspace/big && echo done
"""


@check("memory-bomb-in-python", BOMB)
@check("memory-bomb-in-a-child", CHILD)
@check("memory-bomb-of-shared-mappings", MAPPED % 320)
@check("memory-bomb-of-a-memfd", MEMFD % 320)
@check("memory-bomb-of-all-that-is-shared", IN_SHM + MAPPED % 110 + MEMFD % 110)
def bomb(code):
    with Client(**FAST) as client:
        answer = client.call("python", code, 60)
        is_native(answer)
        is_out_of_memory(answer)
        peak = answer.used["mem_peak_bytes"]
        expect(250 << 20 <= peak <= 256 << 20, f"mem_peak {peak}")
        client.answers()


@check("memory-of-shm-alone-fits")
def shared_memory_has_its_cap():
    with Client(**FAST) as client:
        answer = client.call("bash", "dd if=/dev/zero of=/dev/shm/x bs=1M count=100")
    expect(answer.exit_code == 1 and "No space left on device" in answer.stderr, answer.text)


@check("memory-of-tmp-is-capped-before-the-sandbox")
def tmp_has_its_cap():
    with Client(**FAST) as client:
        answer = client.call("bash", FILL_TMP)
    expect(answer.exit_code == 1 and "No space left on device" in answer.stderr, answer.text)
    expect(64 << 20 <= answer.used["mem_peak_bytes"] < 128 << 20, answer.text)


@check("memory-bomb-of-tmp")
def tmp_counts():
    with Client(TMPFS_MB=1024, **FAST) as client:
        is_out_of_memory(client.call("bash", FILL_TMP, 60))


@check("memory-limit-is-the-one-that-was-set")
def other_limit():
    with Client(MEM_MB=100, **FAST) as client:
        answer = client.call("python", BOMB, 60)
    is_out_of_memory(answer, 100)


@check("memory-of-the-page-cache-is-given-back")
def page_cache():
    with Client(**FAST) as client:
        answer = client.call("bash", PAGE_CACHE, 60)
    expect(answer.exit_code == 0 and answer.stdout.endswith("done"), answer.text)
    expect(answer.used["mem_peak_bytes"] <= 256 << 20, answer.text)


@check("memory-handed-from-run-to-run-is-bounded")
def handed_on():
    """What a dead run filled, and another one holds, counts for neither: for all of them it does."""
    with Client(MAX_CONCURRENT=2, MEM_MB=64, **FAST) as client:
        keeper = client.start("python", KEEP, 60)
        [leaf] = running_leaves()
        runs = runs_of(leaf)
        expect(read(runs, "memory.max") == str(128 << 20), read(runs, "memory.max"))
        with Samples(lambda: int(read(runs, "memory.current")), 0.02) as samples:
            answers = [client.call("python", HAND_ON, 30) for _ in range(5)]
        kept = client.finish(keeper)
        expect(max(samples) <= 128 << 20, f"all runs together had {max(samples)} bytes")
        ends = [answer.first for answer in (*answers, kept)]
        expect(any(end.startswith("[out of memory: not at the sandbox's own") for end in ends), f"{ends}")
        client.answers()


@check("memory-is-not-what-a-kill-says")
def killed_by_itself():
    with Client(**FAST) as client:
        answer = client.call("bash", "kill -9 $$")
    expect(answer.first == "[killed by SIGKILL]" and answer.exit_code == 137, answer.text)
    expect("memory:" not in answer.text, answer.text)
    is_measured(answer)


def swapped():
    """What of the swap is free, and what runs have in it."""
    used = 0
    for leaf in cgroups("vestibule-run-"):
        for name in ("memory.swap.current", "memory.swap.peak"):  # the latter from Linux 6.5 on
            try:
                used = max(used, int(read(leaf, name)))
            except OSError:
                pass
    return memory("SwapFree")[0], used


@check("memory-is-never-swapped")
def swap():
    [total] = memory("SwapTotal")
    if not total:
        raise Skip("this machine has no swap")
    free = memory("SwapFree")[0]
    with Client(**FAST) as client, Samples(swapped, 0.02) as samples:
        is_out_of_memory(client.call("python", BOMB, 60))
    lowest, used = min(s[0] for s in samples), max(s[1] for s in samples)
    expect(lowest >= free - (1 << 20), f"free swap fell from {free} to {lowest}")
    expect(used == 0, f"the run had {used} bytes in swap")


@check("memory-would-be-swapped-otherwise")
def swap_works():
    """That the check above can fail: a scope without our limit goes to swap."""
    [total, free] = memory("SwapTotal", "SwapFree")
    if not total:
        raise Skip("this machine has no swap")
    scope = "systemd-run --user --scope --quiet -p MemoryMax=64M -p OOMPolicy=continue".split()
    hold = "x = bytearray(b'x') * (100 << 20)"
    with Samples(swapped, 0.02) as samples:
        subprocess.run([*scope, "python3", "-c", hold], env=os.environ, check=True)
    lowest = min(s[0] for s in samples)
    expect(lowest < free - (16 << 20), f"free swap only fell from {free} to {lowest}")
