"""The registry of checks, and what one check works with while it runs."""

import os
import shutil
import tempfile
import threading

from common import ROOT, UID, Fail, Skip, cut, text_of
import records
from server import Server

CHECKS = {}


def check(name, seconds=30):
    """Registers a check under a name, with the time after which it counts as hung."""

    def register(f):
        CHECKS[name] = (f, seconds)
        return f

    return register


class Ctx:
    """The servers and folders of one check, and what it found wrong."""

    def __init__(self, opt):
        self.opt, self.servers, self.errors, self.remarks = opt, [], [], []
        self.base = tempfile.mkdtemp(prefix="vestibule-wire-")
        os.chmod(self.base, 0o755)

    def folder(self, name):
        """A new empty folder that belongs to the server's user."""
        path = tempfile.mkdtemp(prefix=name + "-", dir=self.base)
        if ROOT:
            os.chown(path, UID, UID)
        return path

    def server(self, env=None, modern=False, handshake=True, **kw):
        """A server of the check's own; by default with the handshake behind it."""
        s = Server(self, env or {}, **kw)
        self.servers.append(s)
        if modern:
            s.modern = True
        elif handshake:
            s.initialize()
        return s

    def both(self, **kw):
        """One server of each era, with the era's name."""
        yield "handshake", self.server(**kw)
        yield "2026-07-28", self.server(modern=True, **kw)

    def expect(self, ok, expected, got):
        """Notes a failure and goes on."""
        if not ok:
            self.errors.append(f"expected {expected}, got {cut(got)}")
        return ok

    def need(self, ok, expected, got):
        """Ends the check if it does not hold."""
        if not ok:
            raise Fail(f"expected {expected}, got {cut(got)}")

    def error(self, m, codes, what):
        """The message is a JSON-RPC error with one of these codes."""
        got = m.get("error", {}).get("code")
        wanted = " or ".join(map(str, codes))
        return self.expect(got in codes, f"{what} to be the error {wanted}", m)

    def blocked(self, r, words, what):
        """The result is a refusal that names these words, and claims no isolation."""
        t = text_of(r)
        named = " and ".join(map(repr, words))
        self.expect(
            r.get("isError") is True
            and t.startswith("Blocked:")
            and all(w in t for w in words)
            and "\nisolation:" not in t,
            f"{what} to be isError with `Blocked:` naming {named} and no isolation line",
            {"isError": r.get("isError"), "text": t},
        )

    def remark(self, s):
        """A figure for the reader; decides nothing."""
        self.remarks.append(s)

    def finish(self):
        """Ends the servers. A line on stdout that is no JSON-RPC fails any check."""
        for s in self.servers:
            self.errors += s.violations[:2]
            s.destroy()
            lacking = records.lacking(s)
            if lacking:
                self.errors.append(f"expected a record of every call, got {lacking}")
        shutil.rmtree(self.base, ignore_errors=True)


def run_check(name, opt):
    """Runs one check under its time limit: (why it was skipped, errors, remarks)."""
    f, seconds = CHECKS[name]
    ctx, skipped, fails = Ctx(opt), [None], []

    def body():
        try:
            f(ctx)
        except Skip as e:
            skipped[0] = str(e)
        except Fail as e:
            fails.append(str(e))
        except Exception as e:  # a fault of the check itself must not pass for a success
            where = e.__traceback__.tb_next
            line = f" (line {where.tb_lineno})" if where else ""
            fails.append(f"expected no surprise, got {type(e).__name__}: {cut(str(e))}{line}")

    t = threading.Thread(target=body, daemon=True)
    t.start()
    t.join(seconds)
    if t.is_alive():
        for s in list(ctx.servers):
            s.destroy()
        t.join(5)
        fails = [f"expected an end within {seconds} s, got none"]
    ctx.finish()
    return skipped[0], ctx.errors + fails, ctx.remarks
