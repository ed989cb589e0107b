"""Two images made of this machine's own files, python's and node's, with files that only they have."""

import os
import subprocess
import sysconfig

import oci
import tars

# No other place has these.
MARKER, WORDS = "/opt/marker", "only in the image"
VARIABLE = ("MARKED", "by the image")
# And these are on the machine alone.
OUTSIDE = ("/usr/bin/systemctl", "/usr/lib/systemd")
# What bash code of the checks calls, and what an image must have.
TOOLS = ("bash", "cat", "sleep", "timeout")
# Of the standard library, what no interpreter needs to start and to compile, by names of folders.
NOT_NEEDED = set(
    "__pycache__ asyncio ctypes curses dbm distutils email ensurepip html http idlelib lib-dynload lib2to3 logging "
    "multiprocessing pydoc_data _pyrepl sqlite3 test tkinter tomllib turtledemo unittest venv wsgiref xml xmlrpc "
    "zoneinfo".split()
)
CODECS = ("__init__", "aliases", "ascii", "latin_1", "utf_8.")


class Tree:
    """Entries of a layer, each folder before what is in it."""

    def __init__(self):
        self.entries = {}

    def put(self, entry):
        above = os.path.dirname(entry["name"])
        if above and above not in self.entries:
            self.put(tars.folder(above))
        self.entries.setdefault(entry["name"], entry)

    def text(self, path, text):
        self.put(tars.file(path[1:], text.encode() + b"\n"))

    def file(self, path):
        """A file of this machine, with its content and in its own folder, whatever links lead there."""
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        with open(path, "rb") as data:
            self.put(tars.file(path[1:], data.read(), os.stat(path).st_mode & 0o777))

    def program(self, name):
        """A program, under all names that lead to it, and the libraries that it loads."""
        path = f"/usr/bin/{name}"
        while os.path.islink(path):
            target = os.readlink(path)
            self.put(tars.link(path[1:], target))
            path = os.path.join(os.path.dirname(path), target)
        said = subprocess.run(["ldd", path], stdout=subprocess.PIPE, check=True, text=True).stdout
        for file in (path, *(word for word in said.split() if word.startswith("/"))):
            self.file(file)

    def files(self, folder, is_wanted):
        """The files below a folder whose paths are wanted, without links."""
        for above, below, names in os.walk(folder):
            below.sort()
            for path in (os.path.join(above, name) for name in sorted(names)):
                if is_wanted(path) and not os.path.islink(path):
                    self.file(path)

    def standard_library(self):
        """Python's standard library, with no compiled modules, as official images have it."""
        folder = sysconfig.get_path("stdlib")
        self.files(folder, is_needed)
        # Without this folder python warns at each start.
        self.put(tars.folder(os.path.join(folder, "lib-dynload")[1:]))


def is_needed(path):
    """Whether python may need this module."""
    folders, name = path.split("/")[:-1], os.path.basename(path)
    wanted = CODECS if folders[-1] == "encodings" else ""
    return name.endswith(".py") and name.startswith(wanted) and NOT_NEEDED.isdisjoint(folders)


def base(*programs):
    tree = Tree()
    for name in filter(os.path.islink, ("/bin", "/lib", "/lib64")):
        tree.put(tars.link(name[1:], os.readlink(name)))
    for name in TOOLS + programs:
        tree.program(name)
    return tree


def image(tree, form):
    """An index for both architectures, as registries have them; the second layer puts the first one right."""
    lower = [*tree.entries.values(), tars.folder("opt"), tars.file(MARKER[1:], b"not this one\n")]
    lower.append(tars.file("opt/stale"))
    upper = Tree()
    upper.text(MARKER, WORDS)
    upper.text("/opt/.wh.stale", "")
    upper.text("/usr/lib/os-release", "ID=marked")
    layers = [oci.layer(tars.layer(lower), form), oci.layer(tars.layer(upper.entries.values()), form)]
    return oci.for_both(oci.image(layers, environment=(oci.PATH, "=".join(VARIABLE))))


def make(folder):
    """Writes both, one as an archive and one as a folder: the files, and the settings that name the images."""
    tree = base("python3")
    tree.standard_library()
    python = image(tree, "gzip")
    tree = base("node")
    # Debian's node has modules of its own there.
    tree.files("/usr/share/nodejs", lambda path: path.endswith(".js"))
    node = image(tree, "plain")
    files = [os.path.join(folder, name) for name in ("python.tar", "node")]
    oci.write_archive(files[0], oci.layout_files([("python", python)]))
    oci.write_layout(files[1], ("node", node))
    pins = {"IMAGE_PYTHON": f"localhost/python@{python.digest}", "IMAGE_NODE": f"localhost/node@{node.digest}"}
    return files, pins
