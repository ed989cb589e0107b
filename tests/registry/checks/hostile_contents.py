"""Hostile and odd images, part two: modes, devices, sizes, archives and how they are packed.

Each is (name, points, image, outcome).
"""

import gzip
import hashlib
import random
import tarfile

import oci
import tars
from outcome import FOLDER, Link, Makes, Mode, Refused
from tars import END, file, folder, hard, header, link, node, padded, pax

ONE = tars.layer([file("f")])
JUST_F = Makes({"f": b"x"})
FOREIGN = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
CAPABILITY = "\x01\x00\x00\x02\x00\x20" + "\x00" * 14
GIGABYTE = 1 << 30


def stored(data, archive=ONE, form="gzip", **more):
    """An image of one layer that is stored as these bytes."""
    return oci.image([oci.layer(archive, form, stored=data, **more)])


def described(**more):
    """An image of one layer whose descriptor says something else."""
    data, description, diff = oci.layer(ONE)
    return oci.image([(data, {**description, **more}, diff)])


def cases(canary):
    simple, acl = oci.simple, b"\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff"
    special = [
        node(f"dev/{name}", kind, **more)
        for name, kind, more in [
            ("null", tarfile.CHRTYPE, {"devmajor": 1, "devminor": 3}),
            ("sda", tarfile.BLKTYPE, {"devmajor": 8, "devminor": 0}),
            ("fifo", tarfile.FIFOTYPE, {}),
        ]
    ]
    xattrs = {"SCHILY.xattr.user.foo": "bar", "SCHILY.xattr.security.capability": CAPABILITY}
    return [
        # Modes.
        ("setuid", [7], simple([file("su", mode=0o4755), file("sg", mode=0o2755), folder("sticky", 0o1777)]),
         Makes({"su": Mode(0o755, b"x"), "sg": Mode(0o755, b"x"), "sticky": Mode(0o755, FOLDER)})),
        ("setuid-by-hardlink", [7, 4], simple([file("a", mode=0o755), hard("b", "a", 0o4755)]),
         Makes({"a": Mode(0o755, b"x"), "b": Mode(0o755, b"x")})),
        ("setgid-folder", [7], simple([folder("d", 0o2775), file("d/f", mode=0o6777)]),
         Makes({"d": Mode(0o755, FOLDER), "d/f": Mode(0o755, b"x")})),
        ("sticky-file", [7], simple([file("f", mode=0o1644)]), Makes({"f": Mode(0o644, b"x")})),
        ("world-writable", [7], simple([file("f", mode=0o666), folder("d", 0o777)]),
         Makes({"f": Mode(0o644, b"x"), "d": Mode(0o755, FOLDER)})),
        ("dir-mode-0", [7], simple(
            [folder("m", 0), file("m/f"), folder("m/n", 0), file("m/n/g")], [file("m/.wh.f", b""), file("m/n/h")]
        ), Makes({"m/n/g": b"x", "m/n/h": b"x"})),
        ("dir-readonly", [7], simple([folder("m", 0o555), file("m/f")], [file("m/g"), file("m/f", b"new")]),
         Makes({"m/f": b"new", "m/g": b"x"})),
        ("file-mode-0", [7], simple([file("f", mode=0)], [file("f", b"new", 0)]), Makes({"f": b"new"})),
        ("root-mode-0", [7, 6], simple([folder(".", 0), file("f")]), JUST_F),
        ("root-mode-7777", [7, 6], simple([folder("./", 0o7777), file("f")]), JUST_F),
        ("mode-out-of-range", [7], simple([header(b"f", 1, mode=0o7777777) + padded(b"x")]),
         Makes({"f": Mode(0o755, b"x")})),
        # Devices.
        ("device", [8], simple([folder("dev"), *special, file("after")]), Makes({"dev": FOLDER, "after": b"x"})),
        ("device-over-file", [8], simple([folder("dev"), file("dev/null")], [special[0]]), Makes({"dev": FOLDER})),
        ("hardlink-to-device", [8, 4], simple([folder("dev"), *special, hard("h", "dev/null")]),
         Refused("hard link", "which is")),
        ("unknown-kind", [8], simple([header(b"odd", 0, b"Z"), file("f")]), Refused("of type 0x5a")),
        # Owners and attributes.
        ("owner", [9], simple([file("f", uid=1234, gid=5678), folder("d", uid=0), link("l", "f", uid=1)]),
         Makes({"f": b"x", "d": FOLDER, "l": Link("f")})),
        ("owner-out-of-range", [9], simple([file("f", uid=2**40, gid=2**40)]), JUST_F),
        ("xattr", [9], simple([file("f", pax_headers=xattrs)]), JUST_F),
        ("acl", [9], simple([pax(**{"SCHILY.xattr.system.posix_acl_access": acl}) + header(b"f", 1) + padded(b"x")]),
         JUST_F),
        # Limits.
        ("bomb", [10], bomb, Refused("more than")),
        ("bomb-named-twice", [10], bomb_named_twice, Refused("more than")),
        ("bomb-sparse", [10], simple([tars.sparse(b"huge", 1 << 44, [(0, b"x" * 512)])]), Refused("sparse")),
        ("bomb-entries", [10], lambda: many_entries(1 << 20), Refused("entries")),
        ("size-huge", [10], simple([header(b"f", 1 << 60)]), Refused("more than")),
        ("descriptor-too-small", [10], described(size=10), Refused("longer than its 10 bytes")),
        ("descriptor-too-large", [10], described(size=100_000), Refused("ended too early")),
        ("descriptor-huge", [10], described(size=1 << 62), Refused("MB are needed")),
        ("descriptor-negative", [10], described(size=-1), Refused("cannot be read")),
        # Archives.
        ("sparse", [11], simple([tars.sparse(b"s", 1536, [(0, b"a" * 512), (1024, b"b" * 512)])]),
         Refused("sparse")),
        ("size-smuggled", [11], simple([pax(size=0) + header(b"f", 512) + header(b"smuggled")]), Refused("two sizes")),
        ("global-header", [11], simple([pax(b"g", comment="x"), file("f")]), JUST_F),
        ("truncated-archive", [11], oci.image([oci.layer(ONE[:700])]), Refused("layer cannot be read")),
        ("bad-checksum", [11], oci.image([oci.layer(b"f" + ONE[:200] + b"?" + ONE[202:])]),
         Refused("layer cannot be read")),
        ("no-end-marker", [11], oci.image([oci.layer(ONE[:1024])]), JUST_F),
        ("trailing-garbage", [11], oci.image([oci.layer(ONE + b"garbage" * 100)]), JUST_F),
        ("empty-layer", [11], oci.image([oci.layer(END), oci.layer(ONE)]), JUST_F),
        ("no-layers", [11], oci.image([]), Makes({})),
        ("same-layer-twice", [11], oci.image([oci.layer(ONE), oci.layer(ONE)]), JUST_F),
        # Compression and media types.
        ("plain-tar", [11], simple([file("f")], form="plain"), JUST_F),
        ("zstd", [11], simple([file("f")], form="zstd"), JUST_F),
        ("zstd-frames", [11], stored(tars.pressed(ONE[:512], "zstd") + tars.pressed(ONE[512:], "zstd"), form="zstd"),
         JUST_F),
        ("gzip-members", [11], simple([file("f"), file("g")], form="members"), Makes({"f": b"x", "g": b"x"})),
        ("gzip-truncated", [11], stored(gzip.compress(ONE, mtime=0)[:-12]),
         Refused("layer cannot be read", "deflate|gzip")),
        ("gzip-bad-sum", [11], stored(gzip.compress(ONE, mtime=0)[:-8] + b"\0" * 8),
         Refused("layer cannot be read", "checksum")),
        ("not-gzip", [11], stored(b"not gzip at all" * 9), Refused("layer cannot be read", "gzip")),
        ("wrong-diff-id", [11], stored(gzip.compress(ONE, mtime=0), diff=oci.digest_of(b"other")),
         Refused("decodes to")),
        ("too-few-diff-ids", [11], oci.image([oci.layer(ONE), oci.layer(END)], diffs=[oci.digest_of(ONE)]),
         Refused("2 layers and the digests of 1")),
        ("docker-schema", [11], oci.image([oci.layer(ONE)], docker=True), JUST_F),
        ("unknown-media-type", [11], described(mediaType=oci.LAYER + "+lzma"), Refused("lzma")),
        ("encrypted", [11], described(mediaType=oci.LAYER + "+gzip+encrypted"), Refused("encrypted")),
        ("foreign", [11], described(mediaType=FOREIGN, urls=["http://127.0.0.1:1/x"]),
         Refused("from elsewhere")),
        ("urls", [11], described(urls=["http://127.0.0.1:1/x"]), Refused("from elsewhere")),
    ]


def bomb():
    """A file of a gigabyte of zeros, as a megabyte of gzip."""
    first = header(b"zeros", GIGABYTE)
    unpacked = hashlib.sha256(first)
    for _ in range(GIGABYTE // (16 << 20)):
        unpacked.update(b"\0" * (16 << 20))
    unpacked.update(END)
    packed = gzip.compress(first, mtime=0) + tars.zeros_gzip(GIGABYTE + len(END))
    return oci.image([oci.layer(None, stored=packed, diff="sha256:" + unpacked.hexdigest())])


def bomb_named_twice():
    """What is loaded once and named twice, and would fit if it were counted twice."""
    noise = random.Random(1).randbytes(4 << 20)
    layer = oci.layer(tars.layer([file("noise", noise), file("zeros", bytes(120 << 20))]))
    return oci.image([layer, layer])


def many_entries(count):
    """So many entries, whose diff id is wrong: the limit must come first."""
    block = 1 << 15
    packed = gzip.compress(header(b"again") * block, 6, mtime=0) * (count // block)
    return oci.image([oci.layer(None, stored=packed, diff=oci.digest_of(b""))])
