"""Runs cases: expands a case, gives it a server, takes its steps one by one."""

import json
import os
import re
import signal
import subprocess
import time
from typing import NamedTuple

from fixtures import random_hex
from host import HostChecks, end_marked_processes
from plant import plant
from result import Result, as_list, check
from server import Server, ServerDied, to_result


class Call(NamedTuple):
    """A call on its way."""

    step: dict
    id: object
    started: float


class Caller:
    """Makes calls to one server."""

    def __init__(self, server, grace):
        self.server, self.grace = server, grace

    def start(self, step):
        params = {"name": step["tool"]}
        if "arguments" in step:
            params["arguments"] = step["arguments"]
        rid = self.server.send("tools/call", params, step.get("rid"))
        return Call(step, rid, time.monotonic())

    def patience(self, step):
        """Seconds until a call counts as hung."""
        timeout = (step.get("arguments") or {}).get("timeout_seconds", 10)
        usual = type(timeout) in (int, float) and 0 < timeout < 3600
        return step.get("max_wait_s", (timeout if usual else 10) + self.grace)

    def finish(self, call, seconds=None):
        seconds = seconds or self.patience(call.step)
        message = self.server.wait(call.id, seconds)
        wall = time.monotonic() - call.started
        if message is None:
            return Result(wall=wall, missing=f"no answer in {seconds} s")
        return to_result(message, wall)

    def call(self, step, seconds=None):
        return self.finish(self.start(step), seconds)


class Runner:
    """One server shared by the cases that don't ask for one of their own."""

    def __init__(self, options, fixtures):
        self.options, self.fx = options, fixtures
        self.shared = None

    def start_server(self, wish):
        return Server(
            self.options.cmd,
            self.fx.env({**self.options.env, **wish.get("env", {})}),
            self.fx,
            os.path.join(self.fx.work, "server.stderr"),
            undrained=wish.get("stderr") == "undrained",
            init=wish.get("init", True),
        )

    def get_shared(self):
        if self.shared is not None and not self.shared.alive():
            self.drop_shared()
        if self.shared is None:
            self.shared = self.start_server({})
        return self.shared

    def drop_shared(self):
        if self.shared is not None:
            self.shared.stop(0.5)
            self.shared = None

    def caller(self, server=None):
        return Caller(server or self.get_shared(), self.options.grace)

    def run_case(self, case):
        """Why the case failed, or None."""
        marker = "vcase" + random_hex(12)
        case = expand(case, self.fx.placeholders(marker))
        steps = case.get("steps") or [one_call(case, self.options.slow)]
        self.fx.clean_workspace()
        del self.fx.contacts[:]
        own = None
        try:
            if case.get("server") is not None:
                own = self.start_server(case["server"])
            taker = Steps(self.caller(own), self.fx, marker)
            for number, step in enumerate(steps, 1):
                bad = taker.take(step)
                if bad:
                    where = f"step {number}: " if len(steps) > 1 else ""
                    return where + "; ".join(bad[:3])
            return None
        except (ServerDied, OSError, subprocess.SubprocessError) as error:
            if own is None:
                self.drop_shared()
            return f"{type(error).__name__}: {error}"
        finally:
            if own is not None:
                own.stop()
            end_marked_processes(marker)


def one_call(case, slow):
    """The single step of a case that is no more than one run. On a slow machine it gets more time,
    unless time is what the case is about."""
    arguments = {"language": case["language"], "code": case["code"]}
    if case.get("timeout_seconds") is not None:
        is_of_time = {"timed_out", "max_wall_s", "min_wall_s"} & set(case["expect"])
        arguments["timeout_seconds"] = case["timeout_seconds"] * (1 if is_of_time else slow)
    return {"tool": "run_code", "arguments": arguments, "expect": case["expect"]}


def expand(value, placeholders):
    """Fills in {{NAME}}, {"$repeat": [text, n]} and {"$concat": [...]}."""
    if isinstance(value, str):
        known = lambda m: placeholders.get(m.group(1), m.group(0))  # noqa: E731
        return re.sub(r"\{\{([A-Z_]+)\}\}", known, value)
    if isinstance(value, list):
        return [expand(item, placeholders) for item in value]
    if isinstance(value, dict):
        if set(value) == {"$repeat"}:
            text, times = value["$repeat"]
            return expand(text, placeholders) * times
        if set(value) == {"$concat"}:
            return "".join(expand(item, placeholders) for item in value["$concat"])
        return {key: expand(item, placeholders) for key, item in value.items()}
    return value


class Steps:
    """The kinds of steps. Each gives a list of messages, empty if all is well."""

    KINDS = (
        "sleep plant raw notify close_stdin signal_server host request parallel during repeat "
        "start_call tool"
    ).split()

    def __init__(self, caller, fixtures, marker):
        self.caller, self.server = caller, caller.server
        self.fx, self.marker = fixtures, marker

    def take(self, step):
        kind = next((k for k in self.KINDS if k in step), None)
        if kind is None:
            return [f"unknown step {sorted(step)}"]
        return getattr(self, "step_" + kind)(step) or []

    def step_sleep(self, step):
        time.sleep(step["sleep"])

    def step_plant(self, step):
        plant(self.fx.ws, step["plant"])

    def step_raw(self, step):
        self.server.write_raw(step["raw"].encode("utf-8", "surrogatepass") + b"\n")

    def step_notify(self, step):
        self.server.notify(step["notify"]["method"], step["notify"].get("params", {}))

    def step_close_stdin(self, _step):
        self.server.proc.stdin.close()

    def step_signal_server(self, step):
        self.server.proc.send_signal(getattr(signal, step["signal_server"]))

    def step_host(self, step):
        return HostChecks(self.fx, self.server, self.marker, step).run()

    def step_request(self, step):
        request, start = step["request"], time.monotonic()
        rid = self.server.send(request["method"], request.get("params"), request.get("id"))
        message = self.server.wait(rid, step.get("max_wait_s", 20))
        if message is None:
            return [f"no answer to {request['method']}"]
        text = json.dumps(message.get("result", message.get("error")), ensure_ascii=False)
        wall = time.monotonic() - start
        result = Result(text, rpc_error="error" in message, wall=wall)
        return check(result, step.get("expect", {}))

    def step_parallel(self, step):
        start, bad = time.monotonic(), []
        calls = [self.caller.start(c) for c in step["parallel"] for _ in range(c.get("times", 1))]
        seen = {"ok": 0, "refused": 0, "timed_out": 0}
        for call in calls:
            result = self.caller.finish(call, self.caller.patience(call.step) + 10)
            if result.missing:
                raise ServerDied(f"parallel call: {result.missing}")
            kind = "timed_out" if result.timed_out else "refused" if result.refused else "ok"
            seen[kind] += 1
            bad += check(result, call.step.get("expect", {}))
        for kind, wanted in step.get("counts", {}).items():
            if seen[kind] not in as_list(wanted):
                bad.append(f"counts.{kind}: wanted {wanted}, got {seen[kind]}")
        wall = time.monotonic() - start
        if wall > step.get("max_wall_s", wall):
            bad.append(f"max_wall_s: {wall:.1f}")
        return bad

    def step_during(self, step):
        long = self.caller.start(step["during"])
        time.sleep(step.get("start_delay_s", 0.5))
        bad = []
        for _ in range(step.get("times", 1)):
            bad = bad or (
                self.step_tool(step["call"]) if "call" in step else self.step_request(step)
            )
        result = self.caller.finish(long)
        if result.missing:
            raise ServerDied(result.missing)
        return bad or check(result, step["during"].get("expect", {}))

    def step_repeat(self, step):
        for _ in range(step["repeat"]):
            bad = self.step_tool(step["call"])
            if bad:
                return bad

    def step_start_call(self, step):
        self.caller.start(step["start_call"])  # nobody waits for it

    def step_tool(self, step):
        call = self.caller.start(step)
        if "cancel_after_s" in step:
            time.sleep(step["cancel_after_s"])
            self.server.notify("notifications/cancelled", {"requestId": call.id})
            late = self.caller.finish(call, step.get("settle_s", 2))
            return [] if late.missing else ["the cancelled call was answered"]
        result = self.caller.finish(call)
        bad = check(result, step.get("expect", {}))
        if result.missing and bad:
            raise ServerDied(bad[0])  # hung: the next case gets a new server
        return bad
