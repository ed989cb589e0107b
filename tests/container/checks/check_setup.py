"""`vestibule-mcp setup` has the engine pull what it lacks, and ends like a call."""

import os
import socket
import subprocess
import time

from checking import Wrong, check, expect
from host import AS_PERSON, ENGINE, PERSON, SERVER, SLOW, Client, engine, environment, is_contained, nothing_left
from registry import Registry

NOWHERE = "sha256:" + "0" * 64


class Setup:
    """One run of it: what it said, or what it is saying."""

    def __init__(self, *arguments, **settings):
        self.process = subprocess.Popen(
            [*AS_PERSON, SERVER, "setup", *arguments],
            env=environment(**settings),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, seconds=90):
        try:
            self.out, self.err = self.process.communicate(timeout=seconds * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.out, self.err = self.process.communicate()
            raise
        self.text = f"exit {self.process.returncode}\n{self.out}{self.err}"
        expect(self.out.count("\n") == 1, f"more or less than one line on standard output: {self.text}")
        return self

    def is_ready(self):
        expect(self.process.returncode == 0, self.text)
        expect(self.out.startswith("ready in this terminal's environment: isolation container"), self.text)
        return self

    def is_refused(self, begin, *words):
        expect(self.process.returncode == 1 and self.out.startswith(begin), self.text)
        for word in words:
            expect(word in self.out, f"{word!r} is not in: {self.text}")


@check("setup-stopped-in-a-pull")
def stopped():
    """A registry that never answers, and a signal to `setup` alone."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        image = f"127.0.0.1:{silent.getsockname()[1]}/silent@{NOWHERE}"
        running = Setup(IMAGE_PYTHON=image)
        silent.settimeout(20 * SLOW)
        try:
            connection, _ = silent.accept()
        except TimeoutError as error:
            running.process.kill()
            raise Wrong(f"the engine asked nobody: {running.finish().text}") from error
        with connection:
            expect(clients(image), "no client is at work")
            start = time.monotonic()
            running.process.terminate()
            running.finish(20).is_refused("setup: it was stopped by SIGTERM")
            expect(time.monotonic() - start < 8 * SLOW, "it took long to stop")
            expect(not clients(image), f"left behind: {clients(image)}")


def clients(image):
    """The person's processes that have to do with it, but for `setup` itself, which has it in no argument."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read().decode(errors="replace").split("\0")
            is_ours = os.stat(f"/proc/{pid}").st_uid == PERSON.pw_uid
        except OSError:
            continue
        if is_ours and image in line:
            found.append((int(pid), line))
    return found


@check("setup-pulls-what-is-missing")
def pulls():
    names = {}
    try:
        with Registry() as registry:
            python, node = registry.push("a/python", "python.tar", False), registry.push("node", "node.tar", True, "22")
            names["IMAGE_PYTHON"] = f"{registry.address}/a/python@{python}"
            # By a tag and the digest of an index, as the official images are often named.
            names["IMAGE_NODE"] = f"{registry.address}/node:22@{node}"
            done = Setup(**names).finish().is_ready()
            for name in names.values():
                expect(f"{ENGINE}: pulling {name}\n" in done.err, done.text)
        # Without a registry it is told that all is there.
        done = Setup(**names).finish().is_ready()
        expect("pulling" not in done.err and "the images are here" in done.err, done.text)
        with Client(**names) as client:
            is_contained(client.call("python", "print('hello')"), "hello")
            is_contained(client.call("bash", "echo $PUSHED"), registry.address)
            is_contained(client.call("node", "console.log(process.env.PUSHED)"), registry.address)
            nothing_left()
    finally:
        for name in names.values():
            engine("rmi", "--force", name, check=False)


@check("setup-without-what-it-pulls-from")
def gone():
    with Registry() as registry:
        unknown = f"{registry.address}/nothing@{NOWHERE}"
        done = Setup(IMAGE_PYTHON=unknown).finish()
        done.is_refused("Blocked: ", f"no image {unknown}", f"`{ENGINE} pull {unknown}`")
        expect("could not pull" in done.err, done.text)
        # The other language has what it needs.
        expect("\nnode: container" in done.err, done.text)
    done = Setup(IMAGE_PYTHON=unknown).finish()
    done.is_refused("Blocked: ", f"`{ENGINE} pull {unknown}`")
    nothing_left()


@check("setup-refuses-files")
def files():
    done = Setup("--from", "images.tar").finish()
    done.is_refused("Blocked: ", "--from", f"`{ENGINE} load -i PATH`")
