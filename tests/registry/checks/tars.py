"""Layers: tar archives with whatever an attacker or an odd tool may write into one."""

import gzip
import io
import struct
import subprocess
import tarfile


def file(name, data=b"x", mode=0o644, **more):
    return dict(name=name, data=data, mode=mode, **more)


def folder(name, mode=0o755, **more):
    return dict(name=name, type=tarfile.DIRTYPE, mode=mode, **more)


def link(name, to, **more):
    return dict(name=name, type=tarfile.SYMTYPE, linkname=to, mode=0o777, **more)


def hard(name, to, mode=0o644, **more):
    return dict(name=name, type=tarfile.LNKTYPE, linkname=to, mode=mode, **more)


def node(name, kind, **more):
    return dict(name=name, type=kind, **{"mode": 0o666, **more})


def layer(entries, form=tarfile.PAX_FORMAT):
    """The archive of these entries; bytes among them stand as they are."""
    out = io.BytesIO()
    archive = tarfile.open(fileobj=out, mode="w", format=form, encoding="utf-8", errors="surrogateescape")
    for entry in entries:
        if isinstance(entry, bytes):
            out.write(entry)
            archive.offset += len(entry)
            continue
        info = tarfile.TarInfo(entry["name"])
        info.mtime = 1
        for field, value in entry.items():
            if field not in ("name", "data"):
                setattr(info, field, value)
        data = entry.get("data", b"")
        info.size = len(data) if info.type == tarfile.REGTYPE else 0
        archive.addfile(info, io.BytesIO(data))
    archive.close()
    return out.getvalue()


def header(name, size=0, kind=b"0", linkname=b"", mode=0o644, magic=b"ustar\x0000", sparse=b""):
    """One header by hand, for what tarfile would not write."""
    fields = struct.pack(
        "100s8s8s8s12s12s8sc100s8s32s32s8s8s155s12x",
        name, b"%07o\0" % mode, b"0000000\0", b"0000000\0", number(size), b"00000000001\0", b" " * 8, kind,
        linkname, magic, b"", b"", b"0000000\0", b"0000000\0", sparse or b"",
    )  # fmt: skip
    return fields[:148] + b"%06o\0 " % sum(fields) + fields[156:]


def number(value):
    """A size, in base 256 where octal digits do not reach."""
    return b"%011o\0" % value if value < 8**11 else b"\x80" + value.to_bytes(11, "big")


def padded(data):
    return data + b"\0" * (-len(data) % 512)


def pax(kind=b"x", **records):
    """An extended header with these records, whose values may be anything."""
    body = b""
    for key, value in records.items():
        value = value if isinstance(value, bytes) else str(value).encode()
        rest = b" " + key.encode() + b"=" + value + b"\n"
        length = len(rest) + 1
        while len(str(length)) + len(rest) != length:
            length += 1
        body += str(length).encode() + rest
    return header(b"pax", len(body), kind) + padded(body)


def sparse(name, real, pieces):
    """GNU's sparse format: a file of `real` bytes of which these pieces, (offset, data), are stored."""
    stored = b"".join(data for _, data in pieces)
    table = b"".join(number(offset) + number(len(data)) for offset, data in pieces)
    # Where other formats have a prefix: times, offset, an old field, four pieces, "more follow", size.
    tail = b"\0" * 41 + table.ljust(96, b"\0") + b"\0" + number(real)
    return header(name, len(stored), b"S", magic=b"ustar  \0", sparse=tail) + padded(stored)


END = b"\0" * 1024


def zeros_gzip(size):
    """That many zeros as gzip, without going through all of them."""
    piece = 16 << 20
    whole, rest = divmod(size, piece)
    return gzip.compress(b"\0" * piece, 6, mtime=0) * whole + gzip.compress(b"\0" * rest, 6, mtime=0)


def pressed(data, form):
    """The archive, compressed: `gzip`, `members` (as pigz and estargz write gzip), `zstd` or `plain`."""
    if form == "gzip":
        return gzip.compress(data, 1, mtime=0)
    if form == "members":
        return gzip.compress(data[:512], 6, mtime=0) + gzip.compress(data[512:], 6, mtime=0)
    if form == "zstd":
        return subprocess.run(["zstd", "-qc"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data
