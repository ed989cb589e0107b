"""What a call costs beside the engine's own `run` with the same options, taken in turns."""

import os
import random
import shutil
import statistics
import subprocess
import time

from checking import check, expect, figure
from host import AS_PERSON, ENGINE, KIND, PERSON, WORK, Client, environment, is_contained, nothing_left

ROUNDS = 12


def recorded():
    """The options of a run, as the server gives them, with a script and a policy that stay, and the
    interpreter without what Vestibule starts before it."""
    folder = os.path.join(WORK, "recorder-" + KIND)
    log = os.path.join(folder, "arguments")
    os.makedirs(folder)
    shutil.chown(folder, PERSON.pw_uid, PERSON.pw_gid)
    program = shutil.which(ENGINE, path="/usr/local/bin:/usr/bin:/bin")
    script = f"""#!/bin/bash
if [ "$1" = run ]; then
    printf '%s\\0' "$@" >{log}
    for word; do case $word in type=bind,src=*,dst=/sandbox,readonly)
        cp -r "$(dirname "${{word:14:-22}}")" {folder}/kept.$$ ;;
    esac; done
fi
exec {program} "$@"
"""
    path = os.path.join(folder, ENGINE)
    with open(path, "w") as file:
        file.write(script)
    os.chmod(path, 0o755)
    with Client() as first:
        is_contained(first.call("bash", "true"))
    environ = {**environment(), "PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin"}
    done = subprocess.run([*AS_PERSON, os.path.join(WORK, "vestibule-mcp"), "run", "bash", "-"], input=b"true", env=environ, cwd="/", capture_output=True)
    expect(done.returncode == 0, str(done))
    with open(log) as file:
        arguments = file.read().split("\0")[:-1]
    kept = max((os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("kept.")), key=os.path.getmtime)
    name = arguments[arguments.index("--name") + 1]
    scratch = os.path.join(PERSON.pw_dir, ".vestibule", "run", name)
    options = arguments[: arguments.index("-c")] + arguments[-1:]
    return name, [word.replace(scratch, kept) for word in options]


def plain(name, arguments, number):
    other = f"{name}-plain-{number}"
    own = {name: other, arguments[arguments.index("--cidfile") + 1]: os.path.join(PERSON.pw_dir, other)}
    command = [ENGINE, *(own.get(word, word) for word in arguments)]
    start = time.perf_counter()
    done = subprocess.run([*AS_PERSON, *command], env=environment(), cwd="/", stdin=subprocess.DEVNULL, capture_output=True)
    took = time.perf_counter() - start
    expect(done.returncode == 0, str(done))
    subprocess.run([*AS_PERSON, ENGINE, "rm", "--force", other], env=environment(), cwd="/", capture_output=True)
    return took


def ours(client):
    start = time.perf_counter()
    answer = client.call("bash", "true")
    took = time.perf_counter() - start
    is_contained(answer)
    # The next one is not to pay for the removal of this one.
    nothing_left()
    return took


@check("figures-of-cost")
def cost():
    name, arguments = recorded()
    times = {"plain": [], "ours": []}
    with Client() as client:
        is_contained(client.call("bash", "true"))
        nothing_left()
        for number in range(ROUNDS):
            for which in random.sample(sorted(times), 2):
                took = plain(name, arguments, number) if which == "plain" else ours(client)
                times[which].append(took)
    base, call = (statistics.median(times[which]) for which in ("plain", "ours"))
    figure(f"{ENGINE} run {base * 1000:.0f} ms, a call {call * 1000:.0f} ms: {call / base:.2f} times")
