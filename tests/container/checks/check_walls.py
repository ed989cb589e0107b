"""No network, no privilege, a read-only root, and the syscall policy of the native sandbox."""

from checking import check, expect
from host import ROOTLESS, Client, is_contained

LOOK = r"""
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def fails(name, call):
    try: call()
    except OSError as e: print(name, errno.errorcode[e.errno])
    else: print(name, "worked")
def raw(*args):
    if libc.syscall(*args) < 0:
        e = ctypes.get_errno()
        raise OSError(e, "")
status = dict(l.split(":", 1) for l in open("/proc/self/status"))
for key in "CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp".split():
    print(key, status[key].strip().lstrip("0") or "0")
fails("vsock", lambda: socket.socket(40, 1))
fails("packet", lambda: socket.socket(17, 3))
fails("io_uring", lambda: raw(425, 1, ctypes.create_string_buffer(256)))
fails("unshare", lambda: raw(272, 0x10000000))
fails("mount", lambda: raw(165, b"none", b"/tmp", b"tmpfs", 0, None))
fails("keyctl", lambda: raw(250, 0, 0))
fails("bpf", lambda: raw(321, 0, 0, 0))
fails("userfaultfd", lambda: raw(323, 0))
fails("clone3", lambda: raw(435, 0, 0))
fails("unknown", lambda: raw(999))
open("/tmp/f", "w").close()
fails("set-id", lambda: os.chmod("/tmp/f", 0o4755))
fails("route", lambda: socket.create_connection(("192.0.2.1", 80), 2))
for place in "/", "/etc", "/usr", "/sandbox", "/proc/sys/kernel":
    fails(place, lambda: os.close(os.open(place + "/x", os.O_CREAT | os.O_WRONLY)))
print("stdin", os.read(0, 1))
print("descriptors", sorted(int(n) for n in os.listdir("/proc/self/fd"))[:3])
"""


@check("walls")
def walls():
    with Client() as client:
        answer = client.call("python", LOOK)
        is_contained(answer)
        said = dict(line.split(" ", 1) for line in answer.stdout.splitlines())
        for name in "CapInh CapPrm CapEff CapBnd CapAmb".split():
            expect(said[name] == "0", f"{name} {said[name]}")
        expect(said["NoNewPrivs"] == "1" and said["Seccomp"] == "2", answer.text)
        for name in "vsock packet io_uring unshare mount keyctl bpf userfaultfd set-id".split():
            expect(said[name] == "EPERM", f"{name}: {said[name]}")
        for name in "clone3 unknown".split():
            expect(said[name] == "ENOSYS", f"{name}: {said[name]}")
        expect(said["route"] == "ENETUNREACH", f"route: {said['route']}")
        for place in "/", "/etc", "/usr", "/sandbox":
            expect(said[place] in ("EROFS", "EACCES"), f"{place}: {said[place]}")
        expect(said["stdin"] == "b''", said["stdin"])


@check("walls-environment")
def environment():
    with Client() as client:
        secret = client.call("bash", "tr '\\0' '\\n' </proc/1/environ; env")
        is_contained(secret)
        for word in "DOCKER_HOST CONTAINER_HOST VESTIBULE_ vestibule-test".split():
            expect(word not in secret.stdout, f"{word}: {secret.stdout}")
        expect("HOME=/tmp" in secret.stdout.splitlines(), secret.stdout)


@check("walls-user")
def user():
    with Client() as client:
        answer = client.call("bash", "id -u; ulimit -n; ulimit -Hn; ulimit -c")
        is_contained(answer)
        uid, soft, hard, core = answer.stdout.split()
        expect(ROOTLESS or int(uid) > 0, f"uid {uid}")
        expect((soft, core) == ("1024", "0") and int(hard) <= 4096, answer.text)
