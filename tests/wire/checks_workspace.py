"""What read_workspace gives back."""

import base64
import struct
import zlib

from common import size_in, text_of
from context import check


def png():
    chunk = (
        lambda kind, data: struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(kind + data))
    )
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0\0\xff\0" * 2))
        + chunk(b"IEND", b"")
    )


@check("read-workspace")
def read_workspace(c):
    """what run_code wrote to /workspace can be listed and read back: text, folder, image, binary"""
    ws = c.folder("ws")
    s = c.server({"VESTIBULE_WORKSPACE": ws})
    s.run(f"""import os
root = '/workspace' if os.path.isdir('/workspace') else '.'
os.makedirs(root + '/sub')
open(root + '/note.txt', 'w').write('first\\nzweite Zeile ä\\n')
open(root + '/plot.png', 'wb').write({png()!r})
open(root + '/data.bin', 'wb').write(bytes(range(256)) * 4)
open(root + '/sub/x.txt', 'w').write('deep')
""")
    for args in ({}, {"path": "."}):
        t = text_of(s.call("read_workspace", args))
        c.expect(
            all(n in t for n in ("note.txt", "plot.png", "data.bin", "sub")) and size_in(1024, t),
            f"a listing with names and sizes for {args}",
            t,
        )
    for path, want in (
        ("note.txt", "first\nzweite Zeile ä"),
        ("sub/x.txt", "deep"),
        ("./note.txt", "first"),
        ("sub", "x.txt"),
    ):
        r = s.call("read_workspace", {"path": path})
        c.expect(want in text_of(r) and not r.get("isError"), f"the content of {path}", r)
    r = s.call("read_workspace", {"path": "plot.png"})
    images = [b for b in r.get("content", []) if b.get("type") == "image"]
    c.expect(
        len(images) == 1
        and images[0].get("mimeType") == "image/png"
        and base64.b64decode(images[0].get("data", "")) == png(),
        "plot.png as one image block",
        r,
    )
    t = text_of(s.call("read_workspace", {"path": "data.bin"}))
    c.expect(
        size_in(1024, t) and "\ufffd" not in t and "\x01" not in t,
        "size and kind of a binary file, no mojibake",
        t,
    )
    t = text_of(s.call("read_workspace", {"path": "missing.txt"}))
    c.expect(t.startswith("Not found:"), "`Not found: ...` for a missing file", t)
