"""A script with common imports, in an image with and without python's compiled modules.

The image is made of this machine's own python, without its `.pyc`: so the bare interpreter, which has
them, is the same program on the same modules.
"""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sysconfig
import tarfile

from contestants import GUEST_ENVIRONMENT, Server, Wrong, spawn

IMPORTS = "import argparse, collections, csv, dataclasses, datetime, json, logging, pathlib, re, typing\nprint(1)\n"
NAME = "bench/python:1"


def libraries(program):
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [word for word in said.split() if word.startswith("/")]


def files(tar):
    """Puts the interpreter, its libraries and its modules into a layer."""
    stdlib = sysconfig.get_path("stdlib", vars={"installed_base": "/usr", "base": "/usr"})
    python = os.path.realpath("/usr/bin/python3")
    wanted = {python, "/usr/bin/bash"}
    for folder, folders, names in os.walk(stdlib):
        folders[:] = [name for name in folders if name not in ("__pycache__", "test", "dist-packages")]
        wanted.update(os.path.join(folder, name) for name in names)
    for path in sorted(wanted):
        if path.endswith(".so") or os.path.dirname(path) == "/usr/bin":
            wanted.update(libraries(path) if is_program(path) else [])
    # A file below /lib is one below /usr/lib: the image has the same links.
    placed = {os.path.realpath(os.path.dirname(path)) + "/" + os.path.basename(path): path for path in wanted}
    for target, path in sorted(placed.items()):
        tar.add(os.path.realpath(path), target.lstrip("/"), recursive=False)
    link(tar, "usr/bin/python3", os.path.basename(python))
    for name in ("bin", "lib", "lib64"):
        if os.path.islink(f"/{name}"):
            link(tar, name, os.readlink(f"/{name}"))


def is_program(path):
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def link(tar, name, target):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    tar.addfile(entry)


def layout(folder):
    """An OCI layout with the image."""

    def blob(data):
        name = hashlib.sha256(data).hexdigest()
        with open(os.path.join(blobs, name), "wb") as f:
            f.write(data)
        return {"digest": f"sha256:{name}", "size": len(data)}

    blobs = os.path.join(folder, "blobs", "sha256")
    os.makedirs(blobs)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        files(tar)
    layer = blob(packed.getvalue()) | {"mediaType": "application/vnd.oci.image.layer.v1.tar"}
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = {
        "os": "linux",
        "architecture": machine,
        "config": {"Env": ["PATH=/usr/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    config = blob(json.dumps(config).encode()) | {"mediaType": "application/vnd.oci.image.config.v1+json"}
    manifest = blob(json.dumps({"schemaVersion": 2, "config": config, "layers": [layer]}).encode())
    with open(os.path.join(folder, "index.json"), "w") as f:
        json.dump({"schemaVersion": 2, "manifests": [manifest]}, f)
    return folder


def set_up(program, work):
    """Has `setup` unpack the image; it then finds no node in it, which is no matter here."""
    store = os.path.join(work, "rootfs")
    settings = {
        "VESTIBULE_ROOTFS": "image",
        "VESTIBULE_ROOTFS_DIR": store,
        "VESTIBULE_IMAGE_PYTHON": NAME,
        "VESTIBULE_IMAGE_NODE": NAME,
    }
    command = [program, "setup", "--from", layout(os.path.join(work, "layout"))]
    said = subprocess.run(command, capture_output=True, text=True, env=os.environ | settings).stderr
    if "modules are compiled" not in said:
        raise Wrong(said)
    (name,) = (name for name in os.listdir(store) if not name.startswith("."))
    return settings, os.path.join(store, name, "bytecode")


def contestants(program, work):
    """{name: one run's milliseconds}, and what is to be closed."""
    settings, tree = set_up(program, work)
    script = os.path.join(work, "imports.py")
    with open(script, "w") as f:
        f.write(IMPORTS)
    compiled = Server(program, settings)
    compiled.run("python", IMPORTS)
    # A copy of the store, so that both can take turns.
    bare_store = os.path.join(work, "without")
    shutil.copytree(settings["VESTIBULE_ROOTFS_DIR"], bare_store, symlinks=True)
    shutil.rmtree(os.path.join(bare_store, os.path.basename(os.path.dirname(tree)), "bytecode"))
    plain = Server(program, settings | {"VESTIBULE_ROOTFS_DIR": bare_store})
    return {
        "bare": lambda: spawn(["/usr/bin/python3", script], env=GUEST_ENVIRONMENT),
        "image": lambda: compiled.run("python", IMPORTS),
        "image, nothing compiled": lambda: plain.run("python", IMPORTS),
    }, (compiled, plain)
