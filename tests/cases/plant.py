"""Files of every kind, put into the workspace from outside."""

import os
import socket


def plant(workspace, what):
    """Makes what a `plant` step describes: kind, path, and what the kind needs."""
    name = bytes.fromhex(what["path_hex"]) if "path_hex" in what else os.fsencode(what["path"])
    path = os.path.join(os.fsencode(workspace), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    KINDS[what["kind"]](path, what)
    if "mode" in what:
        os.chmod(path, int(what["mode"], 8))


def _file(path, what):
    text = what.get("content", "").encode("utf-8", "surrogatepass")
    with open(path, "wb") as f:
        f.write(bytes.fromhex(what["hex"]) if "hex" in what else text)


def _many(path, what):
    os.makedirs(path, exist_ok=True)
    for i in range(what["count"]):
        with open(os.path.join(path, b"f%05d" % i), "w"):
            pass


def _socket(path, _what):
    # A socket's address is short: name its folder by a descriptor.
    folder = os.open(os.path.dirname(path), os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(b"/proc/self/fd/%d/%s" % (folder, os.path.basename(path)))
    finally:
        os.close(folder)


KINDS = {
    "file": _file,
    "dir": lambda path, _what: os.makedirs(path, exist_ok=True),
    "many": _many,
    "symlink": lambda path, what: os.symlink(what["target"], path),
    "fifo": lambda path, _what: os.mkfifo(path),
    "socket": _socket,
}
