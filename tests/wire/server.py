"""One server process: what is sent to it, what it answers, and what it leaves behind."""

import itertools
import json
import os
import random
import signal
import subprocess
import threading
import time

from common import Fail, INFO, META, ROOT, UID, cut, key, read, text_of
import records
from processes import command, mentions_mark, processes


def client_environment(home):
    """What an MCP client is sure to pass on: six variables and nothing else."""
    return {
        "HOME": home,
        "LOGNAME": "tester",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "USER": "tester",
    }


class Server:
    """A started server. Its stdout is validated line by line, whatever a check is about."""

    def __init__(self, ctx, env, as_root=False, keep_settings=True):
        self.ctx, self.modern = ctx, False
        self.mark = "601.%09d" % random.randrange(10**9)  # also a duration that `sleep` takes
        self.home, self.cwd = ctx.folder("home"), ctx.folder("cwd")
        given = {
            k: v
            for k, v in ctx.opt.env.items()
            if keep_settings or k == "VESTIBULE_JAIL" or not k.startswith("VESTIBULE_")
        }
        env = {**client_environment(self.home), **given, "VESTIBULE_TEST_MARK": self.mark, **env}
        drop = f"setpriv --reuid {UID} --regid {UID} --clear-groups --inh-caps=-all --".split()
        self.started = time.monotonic()
        self.p = subprocess.Popen(
            (drop if ROOT and not as_root else []) + ctx.opt.server,
            env=env,
            cwd=self.cwd,
            bufsize=0,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.pid, self.seen, self.runs = self.p.pid, set(), set()
        self.elsewhere = "VESTIBULE_AUDIT_DIR" in env or env["HOME"] != self.home
        self.answers, self.notes, self.sent, self.violations, self.stderr = {}, [], set(), [], []
        self.ids, self.eof, self.news = itertools.count(100), False, threading.Condition()
        for f in (self._read_stdout, self._read_stderr):
            threading.Thread(target=f, daemon=True).start()

    # ---- reading

    def _read_stdout(self):
        rest = b""
        while True:
            try:
                data = os.read(self.p.stdout.fileno(), 1 << 16)
            except (OSError, ValueError):
                data = b""
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._line(line)
        with self.news:
            if rest:
                self.violations.append(
                    "expected whole lines on stdout, got half a line at its end: " + cut(repr(rest))
                )
            self.eof = True
            self.news.notify_all()

    def _line(self, line):
        now, bad = time.monotonic(), None
        try:
            m = json.loads(line.decode("utf-8"))
            kinds = (
                [k for k in ("result", "error", "method") if k in m] if isinstance(m, dict) else []
            )
            if not isinstance(m, dict) or m.get("jsonrpc") != "2.0" or len(kinds) != 1:
                bad = "no JSON-RPC 2.0 message"
            elif "id" in m and (
                isinstance(m["id"], bool) or not isinstance(m["id"], (str, int, float))
            ):
                bad = "the id is no string or number"
            elif "method" in m and "id" in m:
                bad = "a request to the client"
            elif "result" in m and ("id" not in m or not isinstance(m["result"], dict)):
                bad = "a result without id or no object"
            elif "error" in m and not (
                isinstance(m["error"].get("code"), int)
                and isinstance(m["error"].get("message"), str)
            ):
                bad = "an error without code and message"
            elif "method" not in m and "id" in m and key(m["id"]) not in self.sent:
                bad = "an answer to an id that was never sent"
        except (ValueError, RecursionError, AttributeError):
            m, bad = None, "not valid JSON in UTF-8"
        with self.news:
            if bad:
                got = cut(line.decode("utf-8", "replace"))
                self.violations.append(f"expected JSON-RPC on stdout, got {bad}: {got}")
            elif "method" in m:
                self.notes.append((now, m))
            else:
                self.answers.setdefault(key(m.get("id")), []).append((now, m))
            self.news.notify_all()

    def _read_stderr(self):
        for line in self.p.stderr:
            self.stderr.append(line.decode("utf-8", "replace").rstrip())

    # ---- writing

    def raw(self, data, *ids):
        self.sent.update(key(i) for i in ids)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self.p.stdin.fileno(), view) :]
        except (OSError, ValueError):
            raise Fail(f"expected a server that reads, got a closed pipe ({self.fate()})") from None

    def send(self, m):
        records.note(self, m)
        self.raw(json.dumps(m).encode() + b"\n", *([m["id"]] if "id" in m else []))

    def request(self, method, params=None, id=None, meta=None):
        id = next(self.ids) if id is None else id
        m = {"jsonrpc": "2.0", "id": id, "method": method}
        meta = {**(META if self.modern else {}), **(meta or {})}
        if params is not None or meta:
            m["params"] = {**(params or {}), **({"_meta": meta} if meta else {})}
        self.send(m)
        return id

    def notify(self, method, params=None):
        self.send(
            {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
        )

    # ---- waiting

    def until(self, test, seconds, what):
        end = time.monotonic() + seconds
        with self.news:
            while not (x := test()):
                left = end - time.monotonic()
                if left <= 0:
                    raise Fail(f"expected {what}, got nothing within {seconds} s")
                if self.eof:
                    raise Fail(f"expected {what}, got end of output ({self.fate()})")
                self.news.wait(min(left, 1))
            return x

    def answer(self, id, seconds=20, nth=1):
        got = lambda: self.answers.get(key(id), [])
        return self.until(
            lambda: len(got()) >= nth and got()[nth - 1][1], seconds, f"an answer to id {id!r}"
        )

    def ask(self, method, params=None, seconds=20, **kw):
        return self.answer(self.request(method, params, **kw), seconds)

    def call(self, tool, args, seconds=30, **kw):
        m = self.ask("tools/call", {"name": tool, "arguments": args}, seconds, **kw)
        if "result" not in m:
            raise Fail(f"expected a result of {tool}, got {cut(m)}")
        return m["result"]

    def run(self, code, language="python", seconds=30, **args):
        """run_code that must have run: result and text"""
        r = self.call("run_code", {"language": language, "code": code, **args}, seconds)
        t = text_of(r)
        if r.get("isError") or t.startswith("Blocked:"):
            raise Fail(f"expected {language} code to run, got {cut(t)}")
        return r, t

    def start_run(self, code, **args):
        kw = {k: args.pop(k) for k in ("id", "meta") if k in args}
        return self.request(
            "tools/call",
            {"name": "run_code", "arguments": {"language": "python", "code": code, **args}},
            **kw,
        )

    def initialize(self, version="2025-11-25", id=1):
        m = self.ask(
            "initialize",
            {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO},
            10,
            id=id,
        )
        if "result" not in m:
            raise Fail(f"expected initialize to succeed, got {cut(m)}")
        self.notify("notifications/initialized")
        return m["result"]

    def lives(self, after):
        m = self.ask("tools/list", None, 5) if self.modern else self.ask("ping", None, 5)
        if "result" not in m:
            raise Fail(f"expected the session to live on after {after}, got {cut(m)}")

    # ---- the end, and what is left

    def fate(self):
        try:
            rc = self.p.wait(0.2)
        except subprocess.TimeoutExpired:
            return "process still there"
        return f"exit status {rc}" + (f", stderr: {cut(self.stderr[-1])}" if self.stderr else "")

    def close_stdin(self):
        self.p.stdin.close()

    def exit_status(self, seconds):
        try:
            return self.p.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Fail(f"expected the process to end within {seconds} s, got still running")

    def family(self):
        """living processes of this server: descendants, its session, and whatever carries its mark"""
        table, mine = processes(), {self.pid}
        grew = True
        while grew:
            new = {
                p
                for p, (parent, sid, _) in table.items()
                if p not in mine and (parent in mine or sid == self.pid)
            }
            mine |= new
            grew = bool(new)
        mark = self.mark.encode()
        found = {(p, table[p][2]) for p in table if p in mine or mentions_mark(p, mark)}
        self.seen |= found
        return {(p, s) for p, s in self.seen if p in table and table[p][2] == s}

    def guests(self):
        return [
            p for p, _ in self.family() if self.mark.encode() in (read(f"/proc/{p}/cmdline") or b"")
        ]

    def start_busy(self, **kw):
        """a run of two processes, one in a session of its own, seen alive from outside"""
        id = self.start_run(
            "import os, subprocess\n"
            f"subprocess.Popen(['sleep', '{self.mark}'], start_new_session=True)\n"
            f"os.execvp('sleep', ['sleep', '{self.mark}'])",
            timeout_seconds=60,
            **kw,
        )
        end = time.monotonic() + 15
        while len(self.guests()) < 2:
            if key(id) in self.answers:
                raise Fail(f"expected a long run, got {cut(self.answers[key(id)][0][1])}")
            if time.monotonic() > end:
                raise Fail(f"expected two processes of the run, got {len(self.guests())}")
            time.sleep(0.05)
        time.sleep(0.2)
        self.family()
        return id

    def gone_within(self, seconds, since, what="process of its tree"):
        while left := self.family():
            if time.monotonic() - since > seconds:
                names = ", ".join(command(p) for p, _ in sorted(left))
                raise Fail(f"expected no {what} {seconds} s later, got {names}")
            time.sleep(0.03)

    def destroy(self):
        for p, _ in self.family():
            try:
                os.kill(p, signal.SIGKILL)
            except OSError:
                pass
        try:
            self.p.wait(3)
        except subprocess.TimeoutExpired:
            pass
