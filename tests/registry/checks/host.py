"""The person who sets up, the homes, the command, and what it leaves in the file system."""

import contextlib
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from typing import NamedTuple

from checking import Skip, Wrong, expect
from tally import Tally

WORK = os.environ["CHECK_WORK"]
PROGRAM = os.path.join(WORK, "vestibule-mcp")
IS_ROOT = os.getuid() == 0
UID = int(os.environ["CHECK_UID"]) if IS_ROOT else os.getuid()
AS_USER = f"setpriv --reuid {UID} --regid {UID} --clear-groups --inh-caps=-all --".split() if IS_ROOT else []
READY = "ready in this terminal's environment: isolation native"
# No command may take longer. A busy machine takes a multiple of what it needs.
BOUND = 150


def needs_root(why):
    if not IS_ROOT:
        raise Skip(f"needs root, {why}")


class Done(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float

    @property
    def text(self):
        return self.out + self.err

    @property
    def last(self):
        """The last line of the result; what comes before goes to the other stream."""
        return (self.out.strip().splitlines() or [""])[-1]

    def is_ready(self):
        expect(self.code == 0, f"exit {self.code}: {self.text[-1500:]}")
        expect(self.last.startswith(READY), f"last line: {self.out[-500:]}")
        expect("this machine's /usr" not in self.out, self.out[-500:])
        return self

    def is_blocked(self):
        """It ended with what is missing in an image that was unpacked."""
        return self.fails("Blocked: ", "there is no|holds /usr")

    def is_error(self, *words):
        """It ended before there was an image."""
        return self.fails(("setup: ", "Blocked: "), *words)

    def fails(self, start, *words):
        expect(self.code == 1, f"exit {self.code}: {self.text[-1500:]}")
        expect(
            self.last.startswith(start) and "Fix: " in self.last, f"last line: {self.last!r} after {self.err[-800:]}"
        )
        said = self.last.lower()
        for word in words:
            options = word.lower().split("|")
            expect(any(option in said for option in options), f"{word!r} is not in: {self.last}")
        return self


class Home:
    """A fresh home of the person, gone at the end of the `with` block."""

    def __init__(self, **settings):
        self.path = tempfile.mkdtemp(prefix="home.", dir=WORK)
        give(self.path)
        self.rootfs = os.path.join(self.path, ".vestibule", "rootfs")
        self.settings, self.started = settings, []
        self.tally = Tally(os.path.join(self.path, ".vestibule", "audit"))

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        try:
            if not error:
                self.every_run_is_recorded()
        finally:
            self.remove()

    def every_run_is_recorded(self):
        """That each run since the last such look has its audit records, which may go then."""
        finding = self.tally.finding() if self.tally.answered else None
        expect(not finding, finding)
        self.tally.calls.clear()

    def remove(self):
        # Those of a check that was broken off go on making files.
        for process in self.started:
            if process.poll() is None:
                kill(process)
        # As the person and by the documented command; what is then left is the check's own.
        subprocess.run([*AS_USER, "rm", "-rf", self.path], stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", self.path], check=True)

    def environment(self, **settings):
        """`IMAGE_PYTHON=…` is Vestibule's own; a name that begins with an underscore is anybody's."""
        made = {"HOME": self.path, "PATH": "/usr/local/bin:/usr/bin:/bin", "LOGNAME": "person", "USER": "person"}
        # An engine that happens to run here is another tier's matter.
        made.update(SHELL="/bin/bash", TERM="dumb", VESTIBULE_BACKEND="native")
        for name, value in {**self.settings, **settings}.items():
            if value is not None:
                made[name[1:] if name.startswith("_") else "VESTIBULE_" + name] = str(value)
        return made

    def start(self, *arguments, through=(), **settings):
        """Starts the program, perhaps through another one that starts it in its turn."""
        process = subprocess.Popen(
            [*AS_USER, *through, PROGRAM, *arguments],
            env=self.environment(**settings),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def setup(self, *arguments, bound=BOUND, **settings):
        begun = time.monotonic()
        return finish(self.start("setup", *arguments, **settings), begun, bound)

    def run(self, language, code, **settings):
        done = subprocess.run(
            [*AS_USER, PROGRAM, "run", language],
            env=self.environment(**settings),
            cwd="/",
            input=code,
            capture_output=True,
            text=True,
            timeout=BOUND,
        )
        self.tally.ran(code)
        return Done(done.returncode, done.stdout, done.stderr, 0)

    def images(self):
        """The folders of finished images."""
        try:
            names = os.listdir(self.rootfs)
        except FileNotFoundError:
            return []
        return sorted(name for name in names if name.startswith(("sha256-", "sha512-")))

    def folder(self, image):
        """That image's folder, whether it is there or not."""
        digest = getattr(image, "digest", image)
        return os.path.join(self.rootfs, digest.replace(":", "-", 1))

    def has(self, image):
        return os.path.isdir(self.folder(image))

    def remove_images(self):
        by_user("rm", "-rf", self.rootfs)

    def tree(self, image):
        """Its files; the image must be there."""
        expect(self.has(image), f"no image: {self.images()}")
        return Tree(os.path.join(self.folder(image), "rootfs"))


def finish(process, begun, bound=BOUND):
    try:
        out, err = process.communicate(timeout=bound)
    except subprocess.TimeoutExpired:
        kill(process)
        raise Wrong(f"no end within {bound} s") from None
    done = Done(process.returncode, out, err, time.monotonic() - begun)
    expect("panicked" not in err and done.code >= 0, f"it crashed: {done.code} {err[-800:]}")
    expect("\x1b" not in done.text, f"escapes in: {done.text[-800:]!r}")
    return done


def kill(process):
    """All of its session, helpers included."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def give(path):
    if IS_ROOT:
        os.chown(path, UID, UID, follow_symlinks=False)


def by_user(*command, check=True, **more):
    return subprocess.run([*AS_USER, *command], check=check, capture_output=True, text=True, **more)


class Tree:
    """What is below a folder, by its relative path: (type, mode, content or target)."""

    def __init__(self, root):
        self.root, self.found, self.inodes = root, {}, {}
        self.look("")

    def look(self, below):
        for entry in sorted(os.scandir(os.fsencode(os.path.join(self.root, below))), key=lambda one: one.name):
            name = os.path.join(below, os.fsdecode(entry.name))
            self.found[name] = self.one(name, os.lstat(entry.path), entry.path)
            if stat.S_ISDIR(os.lstat(entry.path).st_mode):
                self.look(name)

    def one(self, name, status, path):
        self.inodes[name] = status
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            return ("folder", mode, "")
        if stat.S_ISLNK(status.st_mode):
            return ("link", 0, os.fsdecode(os.readlink(path)))
        if not stat.S_ISREG(status.st_mode):
            return ("special", mode, stat.S_IFMT(status.st_mode))
        with open(path, "rb") as data:
            return ("file", mode, hashlib.file_digest(data, "sha256").hexdigest())

    def is_harmless(self):
        """What no image may leave behind, whatever was in its layers."""
        for name, (kind, mode, _) in self.found.items():
            status = self.inodes[name]
            expect(kind != "special", f"a device or pipe: {name}")
            expect(not mode & 0o6000, f"set-id: {name} {mode:o}")
            expect(kind == "link" or not mode & 0o022, f"others may write: {name} {mode:o}")
            expect(kind == "folder" or not mode & 0o1000, f"sticky file: {name}")
            expect(kind == "link" or mode & 0o400, f"its owner may not read: {name} {mode:o}")
            expect(kind != "folder" or mode & 0o700 == 0o700, f"a closed folder: {name} {mode:o}")
            expect((status.st_uid, status.st_gid) == (UID, UID) or not IS_ROOT, f"owner: {name} {status.st_uid}")
            expect(status.st_uid == UID, f"owner: {name} {status.st_uid}")
            extended = kind != "link" and os.listxattr(os.path.join(self.root, name))
            expect(not extended, f"extended attributes: {name} {extended}")
            inside = sum(one.st_ino == status.st_ino for one in self.inodes.values()) if status.st_nlink > 1 else 1
            expect(kind == "folder" or inside == status.st_nlink, f"a link to it stands elsewhere: {name}")


class Canary:
    """A folder outside, which the person could change if an image made them."""

    def __init__(self, path):
        self.path = path
        os.makedirs(os.path.join(path, "sub"))
        for name in ("secret", "target", "sub/deep"):
            with open(os.path.join(path, name), "w") as out:
                out.write(f"canary {name}")
        for below, folders, files in os.walk(path):
            for name in folders + files:
                give(os.path.join(below, name))
        give(path)
        self.before = self.state()

    def state(self):
        tree = Tree(self.path)
        tree.inodes[""] = os.lstat(self.path)
        fields = "st_mode st_uid st_gid st_size st_mtime_ns st_ctime_ns st_nlink st_ino".split()
        seen = {name: [getattr(status, field) for field in fields] for name, status in tree.inodes.items()}
        return seen, tree.found

    def is_unchanged(self):
        now = self.state()
        if now != self.before:
            pairs = zip(now, self.before, strict=True)
            changed = {name for one, two in pairs for name in {*one, *two} if one.get(name) != two.get(name)}
            self.before = now
            raise Wrong(f"changed outside: {sorted(changed)}")


@contextlib.contextmanager
def mounted(path, options):
    """A small file system of the person's own."""
    os.makedirs(path, exist_ok=True)
    for folder in (os.path.dirname(path), path):
        give(folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"{options},uid={UID},gid={UID},mode=700", "none", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def no_process_left(seconds=10):
    """Nothing of the person's runs on: the uid is nobody else's."""
    if not IS_ROOT:
        return
    end = time.monotonic() + seconds
    while found := subprocess.run(["pgrep", "-a", "-u", str(UID)], capture_output=True, text=True).stdout:
        expect(time.monotonic() < end, f"left running: {found}")
        time.sleep(0.05)


def copied(source, target):
    shutil.copytree(source, target, symlinks=True)
