"""An image as the root file system: the whole of level `native`, and nothing of this machine's /usr."""

import functools
import json
import os
import shutil
import subprocess
import time
from typing import NamedTuple

import image
from check_limits import LOOK, SHOULD_BE
from check_memory import BOMB
from check_usage import MIB, TOUCH, is_near
from checking import check, expect, figure
from client import FAST, IN_IMAGE, WORK, Client, is_measured, is_native, is_out_of_memory
from machine import SERVER, leaves, no_scope_left, nothing_left, read, running_leaves

STORE = os.path.join(os.environ["HOME"], ".vestibule", "rootfs")
READY = f"ready in this terminal's environment: isolation {IN_IMAGE}\n"
SEEN = {
    "python": f"""import os
print(open({image.MARKER!r}).read(), os.environ[{image.VARIABLE[0]!r}], os.path.exists("/opt/stale"))
print(open("/usr/lib/os-release").read(), [path for path in {image.OUTSIDE} if os.path.exists(path)])
""",
    "bash": f"""cat {image.MARKER} /usr/lib/os-release
echo "${image.VARIABLE[0]}"
for path in /opt/stale {" ".join(image.OUTSIDE)}; do [ -e $path ] && echo $path; done
:""",
    "node": f"""const fs = require("fs"), read = path => fs.readFileSync(path, "utf8")
console.log(read({image.MARKER!r}), read("/usr/lib/os-release"), process.env.{image.VARIABLE[0]})
console.log(["/opt/stale", ...{list(image.OUTSIDE)}].filter(path => fs.existsSync(path)).length)
""",
}
# What it prints is all that python itself took, its start included.
BURN = """import time
while time.process_time() < %s: pass
print(time.process_time() * 1000)
"""
COMPILED = """import json, os, subprocess, sys
compiled = json.__spec__.cached
said = subprocess.run([sys.executable, "-v", "-c", "import json"], stderr=subprocess.PIPE, text=True).stderr
print(sys.pycache_prefix, compiled.startswith("/pycache/usr/"), f"# {compiled} matches" in said)
print(sum(len(files) for _, _, files in os.walk("/pycache")))
"""
CHANGE = """import json, os
for path in %s:
    try:
        os.mkdir(path) if path.endswith("new") else open(path, "ab")
        print("changed", path)
    except OSError as error:
        print(error.strerror)
"""
FIX = "set VESTIBULE_IMAGE_NODE to an image that has node on its PATH"


class Setup(NamedTuple):
    """What `setup` has said."""

    code: int
    out: str
    err: str

    @property
    def text(self):
        return f"{self.code}: {self.out}{self.err}"


def setup(*arguments, **settings):
    """As in a terminal of the session."""
    env = {**os.environ, **{"VESTIBULE_" + name: value for name, value in settings.items()}}
    command = [SERVER, "setup", *arguments]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return Setup(done.returncode, done.stdout, done.stderr)


@functools.lru_cache(maxsize=None)
def images():
    """Makes both images and sets them up: the settings that name them, and what `setup` has said. The
    files are gone then."""
    start = time.monotonic()
    files, pins = image.make(WORK)
    made = time.monotonic()
    done = setup(*(word for file in files for word in ("--from", file)), **pins)
    figure(f"making the images: {made - start:.1f} s, setup: {time.monotonic() - made:.1f} s")
    os.remove(files[0])
    shutil.rmtree(files[1])
    return pins, done


def in_images(**settings):
    """A server with both."""
    return Client(**{**images()[0], **FAST, **settings})


@check("image-setup-from-files")
def from_files():
    """An archive and a folder, by an ordinary user, with python's modules compiled."""
    done = images()[1]
    expect(done.code == 0 and done.out == READY, done.text)
    expect("python's modules are compiled: " in done.err, done.text)
    no_scope_left()
    nothing_left()


@check("image-setup-again-needs-nothing")
def again():
    """No file, no network, and no compiler."""
    pins, _ = images()
    files = [os.path.join(STORE, pin.rpartition("@")[2].replace(":", "-")) for pin in pins.values()]
    files += [os.path.join(files[0], "bytecode.files")]
    before = [(os.stat(file).st_ino, os.stat(file).st_mtime_ns) for file in files]
    start = time.monotonic()
    done = setup(**pins)
    figure(f"setup again: {time.monotonic() - start:.1f} s")
    expect(done.code == 0 and done.out == READY, done.text)
    expect(done.err.count(" is here: ") == 2 and "compil" not in done.err, done.text)
    after = [(os.stat(file).st_ino, os.stat(file).st_mtime_ns) for file in files]
    expect(before == after, f"made anew: {before} {after}")


@check("image-is-what-python-sees", "python", f"{image.WORDS}\n {image.VARIABLE[1]} False\nID=marked\n []")
@check("image-is-what-bash-sees", "bash", f"{image.WORDS}\nID=marked\n{image.VARIABLE[1]}")
@check("image-is-what-node-sees", "node", f"{image.WORDS}\n ID=marked\n {image.VARIABLE[1]}\n0")
def seen(language, wanted):
    """Its own files in the order of its layers, its variables, and nothing of the machine's."""
    outside = [os.path.exists(path) for path in (*image.OUTSIDE, image.MARKER)]
    expect(outside == [True, True, False], f"the machine's own: {outside}")
    with in_images() as client:
        answer = client.call(language, SEEN[language])
    is_native(answer, wanted, IN_IMAGE)
    expect(answer.exit_code == 0 and not answer.stderr, answer.text)
    is_measured(answer)


@check("image-is-named-in-the-audit-log")
def named():
    with in_images() as client:
        is_native(client.call("bash", "echo named"), "named", IN_IMAGE)
    [line] = subprocess.check_output([SERVER, "audit", "1", "--json"], text=True).splitlines()
    record = json.loads(line)
    wanted = (images()[0]["IMAGE_PYTHON"], IN_IMAGE, "echo named", "ran")
    found = tuple(record.get(name) for name in ("rootfs", "isolation", "code", "outcome"))
    expect(found == wanted, line)


@check("image-runs-compiled-modules")
def compiled():
    """They are shown, and python takes them."""
    with in_images() as client:
        answer = client.call("python", COMPILED)
    is_native(answer, level=IN_IMAGE)
    said, _, count = answer.stdout.partition("\n")
    expect(said == "/pycache True True" and int(count) > 100, answer.text)
    figure(f"compiled modules: {count} files")


@check("image-cannot-be-changed", f"'/new', '/usr/new', '/usr/bin/bash', '/opt/new', {image.MARKER!r}")
@check("image-compiled-modules-cannot-be-changed", "'/pycache/new', json.__spec__.cached")
def read_only(paths):
    with in_images() as client:
        answer = client.call("python", CHANGE % paths)
    is_native(answer, "\n".join(["Read-only file system"] * len(paths.split())), IN_IMAGE)


@check("image-limits-are-in-force")
def limits():
    """Read from outside, as they are without an image."""
    with Client(**images()[0]) as client:
        call = client.start("bash", LOOK)
        [leaf] = running_leaves()
        found = {name: read(leaf, name) for name in SHOULD_BE}
        is_native(client.finish(call), "0::/", IN_IMAGE)
    expect(found == SHOULD_BE, f"{found}")


@check("image-out-of-memory")
def out_of_memory():
    with in_images() as client:
        answer = client.call("python", BOMB, 60)
        is_native(answer, level=IN_IMAGE)
        is_out_of_memory(answer)
        expect(250 * MIB <= answer.used["mem_peak_bytes"] <= 256 * MIB, answer.text)
        is_native(client.call("bash", "echo alive"), "alive", IN_IMAGE)


@check("image-usage-is-measured")
def usage():
    """Of the processor what python says itself, of memory what was touched, beside a run that does nothing."""
    with in_images() as client:
        client.call("python", "pass")
        empty, burnt = (client.call("python", BURN % seconds) for seconds in (0, 3))
        touched = client.call("python", TOUCH)
    for answer in (empty, burnt, touched):
        is_native(answer, level=IN_IMAGE)
        is_measured(answer)
    others = empty.used["cpu_ms"] - float(empty.stdout)
    figure(f"cpu: {burnt.used['cpu_ms']} ms, of which python says {float(burnt.stdout):.0f}, beside {others:.0f} ms")
    is_near(burnt.used["cpu_ms"] - others, float(burnt.stdout), "cpu")
    is_near(touched.used["mem_peak_bytes"] - empty.used["mem_peak_bytes"], 100 * MIB, "mem_peak")


@check("image-without-the-language", "native", "")
@check("image-without-the-language-where-any-backend-may-run", "auto", "no backend can run node here. native: ")
def without(backend, before):
    """The call is refused with the setting to change, and other languages run."""
    pins = lacking_node()
    with Client(BACKEND=backend, **pins, **FAST) as client:
        answer = client.call("node", "console.log(1)")
        is_blocked(answer.text, before, pins)
        is_native(client.call("bash", "echo alive"), "alive", IN_IMAGE)
    expect(answer.refused and not leaves(), f"{answer.text} {leaves()}")


@check("image-without-the-language-is-refused-by-setup")
def refused_by_setup():
    pins = lacking_node()
    done = setup(BACKEND="native", **pins)
    expect(done.code == 1 and done.out.count("\n") == 1, done.text)
    is_blocked(done.out, "", pins)


def lacking_node():
    """The image of python is used for node."""
    pins = images()[0]
    return {**pins, "IMAGE_NODE": pins["IMAGE_PYTHON"]}


def is_blocked(text, before, pins):
    expect(text.startswith(f"Blocked: {before}node cannot run: there is no node in "), text)
    expect(f" of the image {pins['IMAGE_NODE']}. Fix: {FIX}" in text, text)


@check("image-that-is-not-there")
def not_there():
    """It is refused where only images are wanted; otherwise the machine's own programs run, and that is said."""
    pins = {**images()[0], "IMAGE_PYTHON": "localhost/python@sha256:" + "0" * 64}
    with Client(BACKEND="native", ROOTFS="image", **pins, **FAST) as client:
        text = client.call("python", "print(1)").text
        expect(text.startswith(f"Blocked: VESTIBULE_ROOTFS is image, and {pins['IMAGE_PYTHON']} "), text)
        expect(". Fix: run `vestibule-mcp setup`" in text, text)
    with Client(**pins, **FAST) as client:
        client.answers()
