"""Calls to a server of one's own, as an MCP client makes them."""

import os
import time
from typing import NamedTuple

from checking import Skip, Wrong, expect
from server import Server, to_result
from tally import Tally


def client_environment():
    """What MCP clients pass on at least, and at most."""
    names = "HOME LOGNAME PATH SHELL TERM USER".split()
    return {name: os.environ.get(name, "dumb") for name in names}


class Place:
    """What the client of the cases wants to know of its surroundings, and the audit logs of all servers."""

    def __init__(self, work):
        self.work, self.leak_fd = work, os.open(work, os.O_RDONLY | os.O_DIRECTORY)
        self.tallies = {}

    def tally_of(self, env):
        """The count of the calls whose records are where this server keeps them."""
        folder = env.get("VESTIBULE_AUDIT_DIR") or os.path.join(env["HOME"], ".vestibule", "audit")
        return self.tallies.setdefault(folder, Tally(folder))

    def every_call_has_its_records(self):
        """A check, and the last one: no server is at work any more."""
        used = [tally for tally in self.tallies.values() if tally.answered]
        if not used:
            raise Skip("these checks make no call")
        for tally in used:
            finding = tally.finding()
            expect(not finding, finding)


class Call(NamedTuple):
    """A call on its way."""

    id: object
    started: float
    timeout: int


class Caller:
    """A server, to be used in a `with` block. An answer may take `patience` beyond its timeout."""

    def __init__(self, command, environment, surroundings, patience):
        log = os.path.join(surroundings.work, "stderr")
        self.patience = patience
        self.server = Server(command, environment, surroundings, log)
        self.pid = self.server.proc.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(self.patience)

    def start(self, language, code, timeout=30):
        arguments = {"language": language, "code": code, "timeout_seconds": timeout}
        params = {"name": "run_code", "arguments": arguments}
        return Call(self.server.send("tools/call", params), time.monotonic(), timeout)

    def finish(self, call):
        """The answer: a Result of the cases, with the facts of `_meta` beside the text."""
        message = self.server.wait(call.id, call.timeout + self.patience)
        if message is None:
            raise Wrong("the call was not answered")
        answer = to_result(message, time.monotonic() - call.started)
        answer.facts = message.get("result", {}).get("_meta", {}).get("vestibule/run", {})
        answer.used = answer.facts.get("usage") or {}
        answer.first = answer.text.partition("\n")[0]
        return answer

    def call(self, language, code, timeout=30):
        return self.finish(self.start(language, code, timeout))

    def cancel(self, call):
        self.server.notify("notifications/cancelled", {"requestId": call.id})
