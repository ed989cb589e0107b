"""The folder of the images: whose it is, who may use it, and what it may not be."""

import os
import stat
import subprocess

from checking import check, expect

from host import IS_ROOT, PROGRAM, Home, by_user, give, needs_root
from points import proves
from stand import STAND, is_tiny


def at_home(**settings):
    return Home(IMAGE_PYTHON=STAND.tiny_node, IMAGE_NODE=STAND.tiny_node, **settings)


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@proves("folder-is-private", 7)
def private():
    """Whatever the umask."""
    for mask in (0o000, 0o077, 0o022):
        with at_home() as place:
            previous = os.umask(mask)
            try:
                place.setup().is_blocked()
            finally:
                os.umask(previous)
            expect(mode_of(place.rootfs) == 0o700, f"umask {mask:03o}: {mode_of(place.rootfs):o}")
            is_tiny(place)


@check("folder-elsewhere")
def elsewhere():
    with at_home() as place:
        other = os.path.join(place.path, "some where", "else")
        place.setup(ROOTFS_DIR=other).is_blocked()
        expect(mode_of(other) == 0o700 and not os.path.exists(place.rootfs), "not there")
        place.rootfs = other
        is_tiny(place)


@check("folder-of-others")
def others():
    needs_root("to make a folder that is another's")
    with at_home() as place:
        os.makedirs(place.rootfs)
        give(os.path.dirname(place.rootfs))
        os.chmod(place.rootfs, 0o777)
        place.setup().is_error(place.rootfs)
        expect(not place.images(), "an image all the same")


@check("folder-that-others-may-write")
def open_to_all():
    """It is closed, or refused: nobody else may swap what runs in the sandbox."""
    with at_home() as place:
        by_user("mkdir", "-p", place.rootfs)
        by_user("chmod", "777", place.rootfs)
        done = place.setup()
        expect(done.code == 1, done.text)
        if place.images():
            expect(not mode_of(place.rootfs) & 0o022, f"left open: {mode_of(place.rootfs):o}")
        else:
            done.is_error(place.rootfs, "by others", "chmod")


@check("folder-is-no-folder")
def no_folder():
    with at_home() as place:
        by_user("mkdir", "-p", os.path.dirname(place.rootfs))
        by_user("touch", place.rootfs)
        place.setup().is_error(place.rootfs)


@check("folder-is-a-link")
def linked():
    """To another's place, say."""
    with at_home() as place:
        by_user("mkdir", "-p", os.path.dirname(place.rootfs), os.path.join(place.path, "target"))
        by_user("ln", "-s", os.path.join(place.path, "target"), place.rootfs)
        done = place.setup()
        expect(done.code == 1 and "Fix: " in done.last, done.text)
        if not os.listdir(os.path.join(place.path, "target")):
            done.is_error(place.rootfs)


@check("folder-that-cannot-be-made")
def unwritable():
    if not IS_ROOT and os.access("/", os.W_OK):
        needs_root("which this is not")
    with at_home() as place:
        place.setup(ROOTFS_DIR="/vestibule-registry-test/rootfs").is_error("/vestibule-registry-test")
        closed = os.path.join(place.path, "closed")
        by_user("mkdir", "-m", "500", closed)
        place.setup(ROOTFS_DIR=os.path.join(closed, "rootfs")).is_error(closed)
        place.setup(ROOTFS_DIR="relative/folder").is_error("VESTIBULE_ROOTFS_DIR")


@check("folder-in-the-workspace")
def nested():
    """Sandboxed code could change its own root."""
    with at_home() as place:
        workspace = os.path.join(place.path, "ws")
        place.setup(WORKSPACE=workspace, ROOTFS_DIR=os.path.join(workspace, "rootfs")).is_error("VESTIBULE_ROOTFS_DIR")
        expect(not os.path.exists(os.path.join(workspace, "rootfs")), "made all the same")


@check("folder-links-inside")
def links_inside():
    """Nor are the names in it links to somewhere else."""
    for name in (".tmp-image-1", ".downloads", ".lock", STAND.tiny_node.rpartition("@")[2].replace(":", "-")):
        with at_home() as place:
            target = os.path.join(place.path, "target")
            by_user("mkdir", "-p", "-m", "700", place.rootfs)
            by_user("mkdir", target)
            by_user("touch", os.path.join(target, "precious"))
            by_user("ln", "-s", target, os.path.join(place.rootfs, name))
            done = place.setup()
            expect(done.code == 1 and "Fix: " in done.last, f"{name}: {done.text}")
            left = os.listdir(target)
            # A person may keep what is loaded elsewhere; what was there stays there.
            expect("precious" in left if name == ".downloads" else left == ["precious"], f"through {name}: {left}")


@check("root-is-refused")
def root():
    needs_root("whom to refuse")
    with at_home() as place:
        done = subprocess.run([PROGRAM, "setup"], env=place.environment(), capture_output=True, text=True, timeout=60)
        expect(done.returncode != 0 and "root" in done.stdout, f"{done.returncode} {done.stdout}")
        expect(not os.path.exists(os.path.join(place.path, ".vestibule")), "it left something")
