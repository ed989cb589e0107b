"""The server under test: one process, spoken to over stdio."""

import json
import os
import re
import signal
import subprocess
import threading
import time

from result import Result, short
from tally import code_of


class ServerDied(Exception):
    """The server is gone, or does not answer and counts as gone."""


class Server:
    """A started server. Answers are collected by a thread, under their ids."""

    def __init__(self, cmd, env, fixtures, stderr_path, undrained=False, init=True):
        self.lock = threading.Condition()
        self.answers, self.junk, self.eof = {}, [], False
        self.next_id, self.runs = 0, {}
        self.tally = fixtures.tally_of(env)
        self.undrained = undrained
        stderr = subprocess.PIPE if undrained else open(stderr_path, "ab")
        self.proc = subprocess.Popen(
            cmd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=env,
            cwd=fixtures.work,
            start_new_session=True,
            pass_fds=[fixtures.leak_fd],
        )
        if not undrained:
            stderr.close()
        threading.Thread(target=self._read, daemon=True).start()
        if init:
            self._initialize()

    def _initialize(self):
        info = {"name": "cases", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        try:
            answer = self.request("initialize", hello, 30)
            if "result" not in answer:
                raise ServerDied(f"initialize failed: {short(json.dumps(answer))}")
            self.notify("notifications/initialized", {})
        except ServerDied:
            self.stop(0.2)
            raise

    # ---- reading

    def _read(self):
        rest = b""
        while True:
            try:
                chunk = os.read(self.proc.stdout.fileno(), 1 << 16)
            except OSError:
                chunk = b""
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._line(line)
        self._line(rest)
        with self.lock:
            self.eof = True
            self.lock.notify_all()

    def _line(self, line):
        if not line.strip():
            return
        try:
            message = json.loads(line.decode("utf-8"))
            good = isinstance(message, dict) and message.get("jsonrpc") == "2.0"
        except ValueError:
            good = False
        with self.lock:
            if not good or ("method" in message and "id" in message):
                self.junk.append(line[:200])
            elif isinstance(message.get("id"), (int, str)):
                self.answers[message["id"]] = message
                if message["id"] in self.runs and self.tally:
                    self.tally.answer(self.runs.pop(message["id"]), message)
            self.lock.notify_all()

    # ---- writing

    def write_raw(self, data):
        try:
            self.proc.stdin.write(data)
            self.proc.stdin.flush()
        except (OSError, ValueError):
            raise ServerDied("the server closed its input") from None

    def notify(self, method, params):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write_raw(json.dumps(message).encode() + b"\n")

    def send(self, method, params, rid=None):
        if rid is None:
            with self.lock:
                self.next_id += 1
                rid = self.next_id
        message = {"jsonrpc": "2.0", "id": rid, "method": method}
        if params is not None:
            message["params"] = params
        if method == "tools/call" and params.get("name") == "run_code":
            self.runs[rid] = code_of(params)
        self.write_raw(json.dumps(message).encode() + b"\n")
        return rid

    # ---- waiting

    def wait(self, rid, timeout):
        """The answer, None if none came in time; ServerDied if it cannot come."""
        end = time.monotonic() + timeout
        with self.lock:
            while rid not in self.answers:
                left = end - time.monotonic()
                if left <= 0:
                    return None
                if self.eof:
                    raise ServerDied(f"the server ended (exit status {self.proc.poll()})")
                self.lock.wait(min(left, 1.0))
            return self.answers.pop(rid)

    def request(self, method, params, timeout):
        answer = self.wait(self.send(method, params), timeout)
        if answer is None:
            raise ServerDied(f"no answer to {method} in {timeout} s")
        return answer

    # ---- looking at the process

    def alive(self):
        return self.proc.poll() is None and not self.eof

    def peak_rss_mib(self):
        try:
            with open(f"/proc/{self.proc.pid}/status") as f:
                found = re.search(r"VmHWM:\s+(\d+)", f.read())
            return int(found.group(1)) / 1024 if found else 0
        except OSError:
            return 0

    def stop(self, patience=3.0):
        try:
            self.proc.stdin.close()
        except OSError:
            pass
        end = time.monotonic() + patience
        while self.proc.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        try:  # its own session: started by us, ended by us
            os.killpg(self.proc.pid, signal.SIGKILL)
        except OSError:
            pass
        try:
            self.proc.wait(5)
        except subprocess.TimeoutExpired:
            pass
        if self.undrained:
            self.proc.stderr.close()


def to_result(message, wall):
    """An answer to tools/call as a Result."""
    if "error" in message:
        error = message["error"]
        text = f"rpc error {error.get('code')}: {error.get('message')}"
        return Result(text, rpc_error=True, wall=wall)
    result = message["result"]
    blocks = result.get("content") or []
    text = "\n".join(b.get("text", "") for b in blocks if b.get("type") == "text")
    return Result(text, is_error=bool(result.get("isError")), wall=wall)
