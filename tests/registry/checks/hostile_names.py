"""Hostile and odd images, part one: names, links, and what layers do to one another.

Each is (name, points, layers, outcome), a layer a list of entries or an archive.
"""

import tarfile

from outcome import FOLDER, Link, Makes, Mode, Refused, Same
from tars import END, file, folder, hard, header, layer, link, node, padded, pax


def cases(canary):
    """`canary` is a folder outside: none of this may touch it."""
    up = "../" * 20 + canary.lstrip("/")
    inside = canary.lstrip("/")
    long_folder, long_file = "d" * 150, "f" * 200
    long_path = f"{long_folder}/{long_file}"
    long_tree = Makes({long_path: b"x", "l" * 160: Link(long_path), "h" * 160: Same(long_path)})
    long_names = [
        folder(long_folder), file(long_path), link("l" * 160, long_path), hard("h" * 160, long_path),
    ]  # fmt: skip
    return [
        # Names.
        ("abs-path", [1], [[file("/abs.txt")]], Makes({"abs.txt": b"x"})),
        ("abs-path-to-canary", [1], [[file(canary + "/evil")]], Makes({inside + "/evil": b"x"})),
        ("dotdot", [1], [[file("ok"), file(up + "/evil")]], Refused("part that is `..`")),
        ("dotdot-in-the-middle", [1], [[folder("a"), file("a/../../evil")]], Refused("part that is `..`")),
        ("dots", [1], [[file("./a"), file("d/./e"), folder("./")]], Makes({"a": b"x", "d/e": b"x"})),
        ("two-slashes", [1], [[file("b//c")]], Refused("slashes")),
        ("empty-name", [1], [header(b"", 1) + padded(b"x") + END], Refused("is empty")),
        ("file-named-dot", [1], [[file(".", b"x")]], Refused("root of the image")),
        ("link-named-dot", [1, 2], [[link(".", canary), file("evil")]], Refused("root of the image")),
        ("nul-in-name", [1], [pax(path=b"a\0b") + header(b"a", 1) + padded(b"x") + END], Refused("NUL byte")),
        ("not-utf8", [1], [header(b"caf\xe9", 1) + padded(b"x") + END], Makes({"caf\udce9": b"x"})),
        ("control-characters", [1], [[file("a\x1b[31m\n\x07b")]], Makes({"a\x1b[31m\n\x07b": b"x"})),
        ("control-characters-refused", [1], [[hard("h", "\x1b[31mred\nnext")]], Refused("hard link `h`")),
        ("component-too-long", [1], [[file("n" * 256)]], Refused("255 bytes")),
        ("path-too-long", [1, 10], [[file("d/" * 2500 + "f")]], Refused("4095 bytes")),
        ("path-too-deep", [1, 10], [[file("d/" * 200 + "f")]], Refused("deep")),
        ("path-too-deep-by-links", [1, 2, 10], [[link("l", "/" + "d/" * 100), file("l/" + "e/" * 100 + "f")]],
         Refused("deep")),
        ("long-names", [1], [long_names], long_tree),
        ("long-names-gnu", [1], [layer(long_names, tarfile.GNU_FORMAT)], long_tree),
        ("no-parent-entries", [1, 6], [[file("p/q/r")]], Makes({"p/q/r": b"x"})),
        # Parents that are links.
        ("symlink-parent-rel", [2], [[link("d", up), file("d/evil")]], Makes({"d": Link(up), inside + "/evil": b"x"})),
        ("symlink-parent-abs", [2], [[link("d", canary), file("d/evil")]],
         Makes({"d": Link(canary), inside + "/evil": b"x"})),
        ("symlink-parent-next-layer", [2], [[link("d", canary)], [file("d/evil")]],
         Makes({"d": Link(canary), inside + "/evil": b"x"})),
        ("symlink-parent-up", [2], [[link("up", ".."), file("up/evil")]], Makes({"up": Link(".."), "evil": b"x"})),
        ("symlink-parent-chain", [2], [[link("a", "b"), link("b", canary + "/sub"), file("a/evil")]],
         Makes({"a": Link("b"), "b": Link(canary + "/sub"), inside + "/sub/evil": b"x"})),
        ("symlink-parent-loop", [2], [[link("a", "b"), link("b", "a"), file("a/evil")]],
         Refused("too many symbolic links")),
        ("symlink-parent-magic", [2], [[link("m", "/proc/self/root" + canary), file("m/evil")]],
         Makes({"m": Link("/proc/self/root" + canary), "proc/self/root/" + inside + "/evil": b"x"})),
        ("symlink-then-dir-chmod", [2, 6], [[link("d", canary), folder("d", 0o777)]], Makes({"d": FOLDER})),
        ("symlink-then-dir-next-layer", [2, 6], [[link("d", canary)], [folder("d", 0o777), file("d/secret", b"own")]],
         Makes({"d/secret": b"own"})),
        ("merged-usr", [2], [
            [folder("usr"), folder("usr/lib"), link("lib", "usr/lib"), link("abslib", "/usr/lib")],
            [file("lib/x"), file("abslib/y")],
        ], Makes({"lib": Link("usr/lib"), "abslib": Link("/usr/lib"), "usr/lib/x": b"x", "usr/lib/y": b"x"})),
        ("dir-over-symlink", [2, 6], [
            [folder("usr"), folder("usr/lib"), link("lib", "usr/lib")],
            [folder("lib"), file("lib/x")],
        ], Makes({"usr/lib": FOLDER, "lib/x": b"x"})),
        # Files over links.
        ("file-over-symlink", [3], [[link("s", canary + "/target")], [file("s", b"evil")]], Makes({"s": b"evil"})),
        ("file-over-symlink-same-layer", [3], [[link("s", canary + "/target"), file("s", b"evil")]],
         Makes({"s": b"evil"})),
        ("symlink-over-folder", [3, 6], [[folder("d"), file("d/x")], [link("d", canary)]], Makes({"d": Link(canary)})),
        ("hardlink-break", [3], [[file("a", b"old"), hard("b", "a")], [file("a", b"new")]],
         Makes({"a": b"new", "b": b"old"})),
        ("hardlink-break-same-layer", [3], [[file("a", b"old"), hard("b", "a"), file("b", b"new")]],
         Makes({"a": b"old", "b": b"new"})),
        ("mode-over-hardlink", [3, 7], [[file("a", b"x", 0o644), hard("b", "a")], [file("b", b"y", 0o755)]],
         Makes({"a": Mode(0o644, b"x"), "b": Mode(0o755, b"y")})),
        # Hard links.
        ("hardlink-out", [4], [[hard("h", up + "/secret")]], Refused("part that is `..`")),
        ("hardlink-out-abs", [4], [[hard("h", canary + "/secret"), file("h", b"evil")]],
         Refused("hard link", "which is")),
        ("hardlink-via-symlink", [4], [[link("s", canary), hard("h", "s/secret")]], Refused("hard link", "which is")),
        ("hardlink-via-symlink-next-layer", [4], [[link("s", canary)], [hard("h", "s/secret")]],
         Refused("hard link", "which is")),
        ("hardlink-to-symlink", [4], [[link("s", canary + "/secret"), hard("h", "s"), file("h", b"evil")]],
         Makes({"s": Link(canary + "/secret"), "h": b"evil"})),
        ("hardlink-of-symlink", [4], [[link("s", canary + "/secret"), hard("h", "s")]],
         Makes({"s": Link(canary + "/secret"), "h": Link(canary + "/secret")})),
        ("hardlink-before-target", [4], [[hard("h", "t"), file("t")]], Refused("hard link", "which is")),
        ("hardlink-to-folder", [4], [[folder("d"), hard("h", "d")]], Refused("hard link", "which is")),
        ("hardlink-to-itself", [4], [[file("a", b"a"), hard("a", "a")]], Refused("hard link", "which is")),
        ("hardlink-to-lower-layer", [4], [[file("a", b"a")], [hard("b", "a")]], Makes({"a": b"a", "b": Same("a")})),
        ("hardlink-to-removed", [4, 5], [[file("a")], [file(".wh.a", b""), hard("b", "a")]],
         Refused("hard link", "which is")),
        # Whiteouts.
        ("whiteout", [5], [[folder("a"), file("a/b"), file("a/c")], [file("a/.wh.b", b"")]], Makes({"a/c": b"x"})),
        ("whiteout-dir", [5], [
            [folder("a"), folder("a/b"), file("a/b/c"), file("a/k")], [file("a/.wh.b", b"")],
        ], Makes({"a/k": b"x"})),
        ("whiteout-missing", [5], [[file("k")], [file(".wh.nothing", b""), file("no/.wh.nothing", b"")]],
         Makes({"k": b"x"})),
        ("whiteout-and-again", [5], [[file("a", b"old")], [file(".wh.a", b""), file("a", b"new")]],
         Makes({"a": b"new"})),
        ("whiteout-after-new", [5], [[file("a", b"old")], [file("a", b"new"), file(".wh.a", b"")]],
         Makes({"a": b"new"})),
        ("opaque", [5], [[folder("a"), file("a/x")], [folder("a"), file("a/.wh..wh..opq", b""), file("a/y")]],
         Makes({"a/y": b"x"})),
        ("opaque-last", [5], [[folder("a"), file("a/x")], [folder("a"), file("a/y"), file("a/.wh..wh..opq", b"")]],
         Makes({"a/y": b"x"})),
        ("opaque-root", [5], [[folder("a"), file("a/x"), file("b")], [file(".wh..wh..opq", b""), file("c")]],
         Makes({"c": b"x"})),
        ("whiteout-dot", [5], [[folder("a"), file("a/x")], [file("a/.wh..", b"")]],
         Refused("whiteout that hides nothing")),
        ("whiteout-dotdot", [5], [[folder("a"), file("keep")], [file("a/.wh...", b"")]],
         Refused("whiteout that hides nothing")),
        ("whiteout-of-nothing", [5], [[file("a")], [file(".wh.", b"")]], Refused("whiteout that hides nothing")),
        ("whiteout-via-symlink", [5, 2], [[link("d", canary)], [file("d/.wh.secret", b"")]],
         Makes({"d": Link(canary)}, maybe=inside)),
        ("opaque-via-symlink", [5, 2], [[link("d", canary)], [file("d/.wh..wh..opq", b"")]],
         Makes({"d": Link(canary)}, maybe=inside)),
        ("whiteout-of-symlink", [5], [[link("d", canary), file("k")], [file(".wh.d", b"")]], Makes({"k": b"x"})),
        ("whiteout-in-first-layer", [5], [[file("a"), file(".wh.a", b""), folder("d"), file("d/.wh..wh..opq", b"")]],
         Makes({"a": b"x", "d": FOLDER})),
        ("whiteout-as-device", [5, 8], [[file("a"), file("k")], [node("a", tarfile.CHRTYPE, devmajor=0, devminor=0)]],
         Makes({"k": b"x"})),
        # Kinds that replace one another.
        ("dup-entries", [6], [[file("x", b"1"), file("x", b"2"), folder("x"), file("x/y", b"3")]],
         Makes({"x/y": b"3"})),
        ("file-to-dir", [6], [
            [file("a"), folder("b"), file("b/c")],
            [folder("a"), file("a/d"), file("b", b"now a file")],
        ],
         Makes({"a/d": b"x", "b": b"now a file"})),
        ("file-as-parent", [6], [[file("a"), file("a/b")]], Refused("no folder")),
        ("dir-again", [6], [[folder("a", 0o700), file("a/b")], [folder("a", 0o755)]],
         Makes({"a": Mode(0o755, FOLDER), "a/b": b"x"})),
    ]
