"""What the line claims is so: each limit that it does not take back ends a bomb."""

from checking import Skip, check, expect
from host import KIND, MEASURED, Client, is_contained, limits, nothing_left

PROCESSES = """
import os, time
count = 0
try:
    while count < 400:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        count += 1
except OSError:
    pass
print(count)
"""
BUSY = """
import multiprocessing, resource, time
def burn():
    end = time.monotonic() + 3
    while time.monotonic() < end: pass
workers = [multiprocessing.Process(target=burn) for _ in range(2)]
for worker in workers: worker.start()
for worker in workers: worker.join()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""
FILL = """
import errno, sys
def fill(place):
    written = 0
    try:
        with open(place + "/fill", "wb", buffering=0) as f:
            while written < 100 << 20: written += f.write(bytes(1 << 16))
    except OSError as e:
        return f"{errno.errorcode[e.errno]} {written >> 10}"
    return written >> 10
for place in "/tmp", "/run", "/var/tmp", "/dev/shm": print(place, fill(place))
"""


def claimed(answer, limit):
    is_contained(answer)
    if limit not in limits(answer):
        raise Skip(f"this engine does not limit {limit} here, and the line says so")


@check("limit-memory", "b = bytearray(400 << 20); b[::4096] = b[::4096]; print(len(b))", 0)
@check("limit-memory-in-a-child", "import os\nif os.fork() == 0:\n b = bytearray(400 << 20); b[::4096] = b[::4096]\n os._exit(0)\nprint(os.wait()[1])\nraise SystemExit(3)", 3)
def memory(code, own):
    with Client() as client:
        answer = client.call("python", code)
        claimed(answer, "memory")
        expect(str(400 << 20) not in answer.stdout, f"400 MiB could be used: {answer.text}")
        if own == 0:
            expect(answer.exit_code == 137, answer.text)
            # Podman's record may say no; the kernel's own count does not.
            named = "[out of memory: the kernel ended the sandbox at its 256 MiB limit]"
            expect(not MEASURED and KIND != "docker" or answer.first == named, answer.text)
        else:
            expect(answer.exit_code == own and answer.stdout == "9", answer.text)
            hit = "memory (a process was ended at 256 MiB)"
            expect(not MEASURED and KIND != "docker" or hit in answer.text, answer.text)


@check("limit-pids")
def pids():
    with Client() as client:
        answer = client.call("python", PROCESSES)
        claimed(answer, "pids")
        expect(100 < int(answer.stdout) < 128, answer.text)
        expect(not MEASURED or "pids (128)" in answer.text and answer.used["pids_peak"] == 128, answer.text)
        nothing_left()


@check("limit-cpu")
def cpu():
    with Client() as client:
        answer = client.call("python", BUSY)
        claimed(answer, "cpu")
        expect(float(answer.stdout) / 3 < 0.75 * 1.15, answer.text)
        expect(not MEASURED or "cpu (throttled in" in answer.text, answer.text)


@check("limit-files-in-memory")
def files():
    with Client(MEM_MB=512) as client:
        answer = client.call("python", FILL)
        is_contained(answer)
        said = dict(line.split(" ", 1) for line in answer.stdout.splitlines())
        for place, kib in {"/tmp": 64 << 10, "/run": 1024, "/var/tmp": 1024, "/dev/shm": 64 << 10}.items():
            # Docker makes some of them for root alone.
            expect(said[place] in (f"ENOSPC {kib}", "EACCES 0"), f"{place}: {said[place]}")
        expect(said["/tmp"].startswith("ENOSPC"), said["/tmp"])
