"""What a probe has to see, and what a container must not have got since."""

import contextlib
import os
import shutil
import subprocess
import tarfile
import threading
import time

from checking import Skip, check, expect
from host import AS_PERSON, KIND, PERSON, VARIABLES, WORK, WORKSPACE, Client, engine, is_contained, made, nothing_left


@contextlib.contextmanager
def mounted(name):
    """A file system of the machine's in the workspace."""
    place = os.path.join(WORKSPACE, name)
    subprocess.run([*AS_PERSON, "mkdir", "-p", place], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=1m,uid={PERSON.pw_uid}", "inner", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        # An ordinary user's Podman may not have seen it, and then this is where the code has written.
        shutil.rmtree(place)


def blocked(answer, *words):
    expect(answer.is_error and answer.text.startswith("Blocked: "), answer.text)
    for word in words:
        expect(word in answer.text, f"{word!r} is not in: {answer.text}")


@check("probe-of-a-mount-in-the-workspace")
def inner_mount():
    with Client() as client:
        is_contained(client.call("bash", "echo x"), "x")
        with mounted("in ner"):
            # The container is no longer the one of the probe, until the next probe.
            first = client.call("bash", "echo y")
            if first.is_error:
                expect("no longer what a probe of it has shown" in first.text, first.text)
            is_contained(client.call("bash", "echo y >'in ner/y'; cat 'in ner/y'"), "y")
        client.call("bash", "true")
        is_contained(client.call("bash", "echo z"), "z")
    nothing_left()


@check("probe-of-a-mount-in-a-read-only-workspace")
def inner_mount_read_only():
    with mounted("in ner") as place, Client(WORKSPACE_RO="on") as client:
        answer = client.call("bash", "echo x >'in ner/x'; echo done")
        if answer.is_error:
            blocked(answer, "a read-only /workspace/in", "unmount it")
        else:
            is_contained(answer, "done")
            expect("Read-only" in answer.stderr, answer.text)
        expect(not os.listdir(place), "code wrote into a workspace that is read-only")


@check("probe-of-a-folder-that-its-owner-may-not-write")
def locked():
    os.chmod(WORKSPACE, 0o555)
    try:
        with Client(WORKSPACE_RO="on") as client:
            is_contained(client.call("bash", "echo x"), "x")
        with Client() as client:
            blocked(client.call("bash", "true"), "writ")
    finally:
        os.chmod(WORKSPACE, 0o700)


@check("probe-of-an-image-with-a-volume")
def volume():
    name = made("volume", "VOLUME /data")
    with Client(IMAGE_PYTHON=name) as client:
        answer = client.call("bash", "echo x >/data/x; echo done")
        if answer.is_error:
            blocked(answer, "there is /data: does the image declare a volume")
        else:
            # Podman leaves it out.
            is_contained(answer, "done")
            expect("/data/x" in answer.stderr, answer.text)
    engine("rmi", "--force", name)


@check("probe-of-an-image-whose-name-goes-to-another")
def renamed():
    name = made("renamed", "ENV WHICH=first")
    with Client(IMAGE_PYTHON=name) as client:
        is_contained(client.call("bash", "echo $WHICH"), "first")
        made("renamed", "ENV WHICH=second", "VOLUME /data")
        is_contained(client.call("bash", "echo $WHICH; [ ! -w /data ] && echo none"), "first\nnone")
    engine("rmi", "--force", name)


@check("probe-of-an-image-without-bash")
def no_bash():
    empty = os.path.join(WORK, "images", "empty.tar")
    with tarfile.open(empty, "w") as archive:
        for folder in "tmp run var var/tmp workspace sandbox".split():
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
    os.chmod(empty, 0o644)
    name = made("empty", archive="empty.tar")
    with Client(IMAGE_PYTHON=name) as client:
        blocked(client.call("bash", "true"), name, "lacks bash")
        is_contained(client.call("node", "console.log(1)"), "1")
    engine("rmi", "--force", name)
    nothing_left()


@contextlib.contextmanager
def settings(text, mounts=""):
    """The person's own settings of Podman, beside those that are there."""
    folder = os.path.join(PERSON.pw_dir, ".config", "containers")
    path, lines = os.path.join(folder, "containers.conf"), os.path.join(folder, "mounts.conf")
    with open(path) as file:
        before = file.read()
    for file, content in ((path, text + before), (lines, mounts)):
        with open(file, "w") as out:
            out.write(content)
    try:
        yield
    finally:
        os.unlink(lines)
        with open(path, "w") as file:
            file.write(before)


@check("probe-of-podmans-own-settings")
def own_settings():
    if KIND != "podman-rootless":
        raise Skip("these settings are those of an ordinary user's Podman")
    secret = os.path.join(PERSON.pw_dir, "secret")
    subprocess.run([*AS_PERSON, "mkdir", "-p", secret + "/key"], check=True)
    with settings("", f"{secret}:/run/secrets\n"), Client() as client:
        # An empty folder stands where the machine's own would be.
        is_contained(client.call("bash", "ls -A /run/secrets; echo done"), "done")
    with settings('[containers]\nenv = ["LEAKED=s3cret"]\n'), Client() as client:
        blocked(client.call("bash", "env"), "its own environment alone", "there is LEAKED")
    for place in "/etc/localtime", "/dev/shm/key", "/proc/key":
        with settings(f'[containers]\nvolumes = ["{secret}/key:{place}"]\n'), Client() as client:
            blocked(client.call("bash", "true"), place)
    with settings(f'[containers]\nvolumes = ["{secret}:/opt/secret"]\n'), Client() as client:
        blocked(client.call("bash", "true"), "there is /opt/secret")
    with settings('[containers]\ndevices = ["/dev/null:/dev/surplus:rw"]\n'), Client() as client:
        blocked(client.call("bash", "true"), "there is surplus")
    with settings('[containers]\ndevices = ["/dev/null:/dev/core:rw"]\n'), Client() as client:
        blocked(client.call("bash", "true"), "there is core")
    # Such a setting comes while a server runs, and its next call starts no code.
    with Client() as client:
        is_contained(client.call("bash", "echo x"), "x")
        with settings(f'[containers]\nvolumes = ["{secret}:/opt/secret"]\n'):
            answer = client.call("bash", "ls /opt/secret")
            expect("nothing was executed" in answer.text and "/opt/secret" in answer.text, answer.text)
            blocked(client.call("bash", "true"), "there is /opt/secret")
    nothing_left()


PLANTED = """#!/usr/bin/bash
echo planted >/workspace/planted
exec /usr/bin/bash "$@"
"""


@check("probe-of-an-image-that-looks-around-in-its-working-folder", "PATH=.bin:/usr/local/bin:/usr/bin:/bin", ".bin/bash")
@check("probe-of-an-image-with-a-profile-in-its-working-folder", "BASH_ENV=.profile", ".profile")
@check("probe-of-an-image-with-libraries-in-its-working-folder", "LD_LIBRARY_PATH=/usr/local/lib:", "libc.so.6")
def planted(variable, path):
    """Code must not become what reads the walls of the next run."""
    name = made("planted", "ENV " + variable)
    place = os.path.join(WORKSPACE, path)
    with Client(IMAGE_PYTHON=name) as client:
        is_contained(client.call("python", "print(1)"), "1")
    subprocess.run([*AS_PERSON, "mkdir", "-p", os.path.dirname(place)], check=True)
    subprocess.run([*AS_PERSON, "tee", place], input=PLANTED, text=True, check=True, stdout=subprocess.DEVNULL)
    os.chmod(place, 0o755)
    try:
        with Client(IMAGE_PYTHON=name) as client:
            answer = client.call("python", "print(1)")
            expect("planted" not in os.listdir(WORKSPACE), "what code had put there was run before the code")
            # An interpreter is started in the workspace, and finds there what the image has it look for.
            expect(answer.isolation is not None, answer.text)
    finally:
        os.unlink(place)
        engine("rmi", "--force", name)


@check("probe-of-an-image-that-has-bash-talk")
def talking():
    name = made("talking", "ENV SHELLOPTS=xtrace")
    with Client(IMAGE_PYTHON=name) as client:
        answer = client.call("python", "print(1)")
        is_contained(answer, "1")
        expect(answer.stderr == "", answer.stderr)
        with mounted("in ner"):
            answer = client.call("python", "print(2)")
            expect(answer.stdout != "2" or not answer.is_error, answer.text)
            expect("differs" not in answer.stderr, answer.text)
    engine("rmi", "--force", name)


@check("probe-of-a-workspace-that-becomes-another-folder")
def exchanged():
    """Two workspaces, one in the other: code in the outer one puts a link in the place of the inner."""
    outer, secret = os.path.join(PERSON.pw_dir, "outer"), os.path.join(PERSON.pw_dir, "secret-folder")
    for folder in (outer + "/inner", secret):
        subprocess.run([*AS_PERSON, "mkdir", "-p", folder], check=True)
    stop = threading.Event()

    def swap():
        inner, away = outer + "/inner", outer + "/away"
        while not stop.is_set():
            os.rename(inner, away)
            os.symlink(secret, inner)
            time.sleep(0.03)
            os.unlink(inner)
            os.rename(away, inner)
            time.sleep(0.03)

    swapper = threading.Thread(target=swap)
    with Client(WORKSPACE=outer + "/inner") as client:
        is_contained(client.call("bash", "echo x"), "x")
        swapper.start()
        try:
            for _ in range(12):
                client.call("bash", "echo x >got-out")
                expect(not os.listdir(secret), "code wrote into a folder that is no workspace")
        finally:
            stop.set()
            swapper.join()
    nothing_left()


@check("probe-by-the-other-engines-client")
def other_client():
    """Docker's own client can be pointed at Podman's socket, which speaks the same language."""
    if KIND != "podman":
        raise Skip("of these engines root's Podman alone has a socket that two clients can speak to")
    VARIABLES["DOCKER_HOST"] = VARIABLES["CONTAINER_HOST"]
    try:
        with Client(RUNTIME="docker") as client:
            blocked(client.call("bash", "true"), "leads to a socket of Podman's", "CONTAINER_HOST")
    finally:
        del VARIABLES["DOCKER_HOST"]
