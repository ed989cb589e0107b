"""Calls to a server of one's own, as an MCP client makes them."""

import os
import time
from types import SimpleNamespace
from typing import NamedTuple

from checking import Wrong
from server import Server, to_result


def client_environment():
    """What MCP clients pass on at least, and at most."""
    names = "HOME LOGNAME PATH SHELL TERM USER".split()
    return {name: os.environ.get(name, "dumb") for name in names}


def place(work):
    """What the client of the cases wants to know of its surroundings."""
    # No folder of that name: these calls are not compared with an audit log.
    return SimpleNamespace(audit="", work=work, leak_fd=os.open(work, os.O_RDONLY | os.O_DIRECTORY))


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
