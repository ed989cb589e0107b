"""A full disk, and what must be known before it fills."""

import os
import subprocess

from checking import expect

import oci
import tars
from host import Home, mounted, needs_root
from points import proves
from stand import STAND, front

NOISE = b"".join(i.to_bytes(8, "little") for i in range(1 << 20))


def full(image, options, *words):
    needs_root("to mount a small disk")
    with front() as registry, Home(IMAGE_NODE=STAND.tiny_node) as place:
        pin = registry.pin(image)
        with mounted(place.rootfs, options):
            place.setup(IMAGE_PYTHON=pin).is_error(*words)
            expect(not place.has(image), "an image all the same")
            names = os.listdir(place.rootfs)
            expect(not [name for name in names if name.startswith(".tmp-")], f"left: {names}")
            used = os.statvfs(place.rootfs)
            return registry, 1 - used.f_bavail / used.f_blocks


@proves("disk-full-while-loading", 10)
def loading():
    """More to load than there is room: said before a blob is asked for."""
    image = oci.for_both(oci.image([oci.layer(tars.layer([tars.file("noise", NOISE)]), "plain")]))
    registry, _ = full(image, "size=4m", "MB free, and about")
    layers = {one.reference for one in registry.asked("blobs")}
    expect(
        not layers & {oci.digest_of(data) for data in image.manifests[1].blobs.values() if len(data) > 1 << 20},
        "it was loaded all the same",
    )


@proves("disk-full-while-unpacking", 10)
def unpacking():
    """What unpacks to more than its size said."""
    image = oci.for_both(oci.simple([tars.file("zeros", bytes(64 << 20)), tars.file("after")]))
    full(image, "size=16m", "no space")


@proves("disk-full-of-files", 10)
def inodes():
    image = oci.for_both(oci.simple([tars.file(f"f{i}", b"") for i in range(900)]))
    full(image, "size=64m,nr_inodes=300", "no space", "df -i")


@proves("files-with-a-limit", 10)
def limited():
    """A limit of a file's size ends nothing without a word: while a blob comes, and while it is unpacked."""
    # The blob of the first is larger than it may be; that of the second is small, and its file is not.
    for content, media in ((NOISE, "plain"), (bytes(4 << 20), "gzip")):
        layer = oci.layer(tars.layer([tars.file("large", content)]), media)
        with front() as registry, Home(IMAGE_NODE=STAND.tiny_node) as place:
            image = oci.for_both(oci.image([layer]))
            through = ["prlimit", f"--fsize={2 << 20}"]
            place.setup(IMAGE_PYTHON=registry.pin(image), through=through).is_error("ulimit -f")
            expect(not place.has(image), "an image all the same")


@proves("disk-with-room-again", 10, 12)
def again():
    """After the disk was full, the same command works once there is room."""
    needs_root("to mount a small disk")
    image = oci.for_both(oci.simple([tars.file("zeros", bytes(32 << 20))]))
    with front() as registry, Home(IMAGE_NODE=STAND.tiny_node) as place:
        pin = registry.pin(image)
        with mounted(place.rootfs, "size=16m"):
            place.setup(IMAGE_PYTHON=pin).is_error("no space")
            remount = ["mount", "-o", "remount,size=256m", place.rootfs]
            subprocess.run(remount, check=True)
            place.setup(IMAGE_PYTHON=pin).is_blocked()
            expect(set(place.tree(image).found) == {"zeros"}, "other files")
