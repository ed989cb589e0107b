"""What every part of the wire checks shares: revisions, defaults, and how a check fails."""

import json
import os
import re

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
INFO = {"name": "wire-checks", "version": "1"}
# What a stateless request carries in place of a handshake.
META = {
    PREFIX + "protocolVersion": MODERN,
    PREFIX + "clientInfo": INFO,
    PREFIX + "clientCapabilities": {},
}
# The defaults of VESTIBULE_MAX_CODE_BYTES and VESTIBULE_MAX_OUTPUT_BYTES.
MAX_CODE = 262144
MAX_OUT = 20000
# Vestibule refuses root, so that a tester who is root starts it as this unused uid.
ROOT = os.geteuid() == 0
UID = int(os.environ.get("AS_UID") or 12345)


class Fail(Exception):
    """The server does not do what it must; ends the check."""


class Skip(Exception):
    """The check cannot be made on this machine, and why."""


def cut(x, n=220):
    """A value on one line, short enough for a message."""
    s = x if isinstance(x, str) else json.dumps(x, ensure_ascii=False, default=repr)
    s = s.replace("\n", "\\n")
    return s if len(s) <= n else f"{s[:n]}...({len(s)} characters)"


def key(id):
    """A request id as a dictionary key: 77 and "77" are two ids."""
    return json.dumps(id)


def read(path):
    """A file's bytes, or None."""
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return None


def text_of(result):
    """The text blocks of a tool's result, joined."""
    content = result.get("content")
    if not isinstance(content, list):
        raise Fail(f"expected content blocks, got {cut(result)}")
    return "\n".join(b.get("text", "") for b in content if b.get("type") == "text")


def number_in(n, text):
    """Whether the text names the number: plain, with thousands separators, or in KiB or kB."""
    forms = {str(n), f"{n:,}"} | {f"{n:,}".replace(",", s) for s in (" ", "_", "\u202f")}
    for unit, names in ((1024, ("KiB", "KB", "K")), (1000, ("kB", "KB", "k"))):
        if n % unit == 0:
            forms |= {f"{n // unit}{gap}{name}" for gap in ("", " ") for name in names}
    return any(re.search(rf"(?<![\d.,]){re.escape(f)}(?![\d]|[.,]\d)", text) for f in forms)


def size_in(n, text):
    """Whether the text names that many bytes, in any usual unit."""
    return number_in(n, text) or f"{n / 1024:.1f} KiB" in text or f"{n / 1000:.1f} kB" in text
