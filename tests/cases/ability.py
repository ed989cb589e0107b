"""What this server can do on this machine, and which cases it therefore can't show.

A case whose `must_hold` is "isolated" or "native" contains code that would harm the machine
itself. It runs only on a server that reports isolation, and only after a look from inside has
shown that the machine's files and processes are really out of sight. The same goes for cases
that need limits: the process cap of a live run is looked up from outside.
"""

import os
import platform
import re
import time

from fixtures import random_hex
from host import marked_processes, process_cap
from result import short

LOOK_AROUND = """import glob, os
seen = os.path.exists(%r)
for path in glob.glob('/proc/[0-9]*/cmdline'):
    try:
        seen |= %r.encode() in open(path, 'rb').read()
    except OSError:
        pass
print('visible' if seen else 'apart')
"""


def code_call(language, code, timeout=20):
    """A run_code step."""
    arguments = {"language": language, "code": code, "timeout_seconds": timeout}
    return {"tool": "run_code", "arguments": arguments}


class Ability:
    """Found out once, with a few probing runs."""

    def __init__(self, caller, fixtures, options):
        self.options = options
        self.isolation, self.findings, self.no_limits = "", [], None
        self.node = None
        first = caller.call(code_call("python", "print(6*7)"), 90)
        self.probe_text = first.text
        if first.exit_code != 0 or "42" not in first.stdout:
            self.kind = "blocked"
            return
        self.isolation = first.isolation or ""
        self.kind = re.match(r"[a-z-]*", self.isolation).group(0) or "none"
        version = caller.call(code_call("node", "console.log(process.versions.node)"), 90).stdout
        if re.match(r"\d+\.\d+\.", version):
            self.node = tuple(int(number) for number in version.split(".")[:2])
        if self.isolated:
            self._check_claims(caller, fixtures)

    @property
    def isolated(self):
        return self.kind.startswith(("native", "container"))

    def _node_tells_modules_apart(self):
        """Whether node recognises an ES module in a .js file: since 20.19, 22.7 and 23."""
        if not self.node:
            return False
        major, minor = self.node
        return major >= 23 or (major == 22 and minor >= 7) or (major == 20 and minor >= 19)

    def _check_claims(self, caller, fixtures):
        code = LOOK_AROUND % (fixtures.secret_path, fixtures.sleeper_mark)
        if "apart" not in caller.call(code_call("python", code), 90).stdout:
            self.findings.append(f"{self.isolation} is reported, but the machine is visible inside")
            self.kind = f"none (claimed {self.kind})"
        elif "limits not applied" in self.isolation:
            self.no_limits = "no cgroup limits here"
        else:
            self._check_process_cap(caller)

    def _check_process_cap(self, caller):
        mark = "vprobe" + random_hex(12)
        run = caller.start(code_call("bash", f"exec -a {mark} sleep 3\n", 10))
        cap, end = None, time.monotonic() + 5
        while cap is None and time.monotonic() < end:
            cap = next(filter(None, map(process_cap, marked_processes(mark))), None)
            time.sleep(0.1)
        caller.finish(run, 60)
        if cap is None or cap > 4096:
            self.no_limits = "the run's cgroup has no process cap"
            self.findings.append(f"{self.isolation} is reported, but {self.no_limits}")

    def skip_reason(self, case):
        """Why the case can't run here, or None."""
        hold = _must_hold(case)
        lacking = {
            "node": not self.node and "no node",
            "node-esm": not self._node_tells_modules_apart() and "a node that knows no module here",
            "nonroot": os.getuid() == 0 and "the tester is root",
            "x86_64": platform.machine() != "x86_64" and "not x86_64",
            "cgroup": (not self.isolated or self.no_limits) and "no cgroup limits here",
            "devshm": not os.path.isdir("/dev/shm") and "no /dev/shm",
        }
        for need in case.get("needs", []):
            if need in self.options.skip_needs:
                return f"needs {need}, which this build does not have yet"
            if lacking.get(need):
                return lacking[need]
        if case.get("heavy") and not self.options.heavy:
            return "heavy (use --heavy)"
        if hold in ("isolated", "native") and not self.isolated:
            return f"needs isolation, the server reports {self.kind}"
        if hold == "native" and not self.kind.startswith("native"):
            return "for native only"
        if self.kind == "blocked" and _runs_code(case):
            return f"run_code is refused: {short(self.probe_text, 60)}"
        return None


def _must_hold(case):
    expectations = [case.get("expect")] + [s.get("expect") for s in case.get("steps") or []]
    holds = [e["must_hold"] for e in expectations if e and "must_hold" in e]
    return holds[-1] if holds else "any"


def _runs_code(case):
    if not case.get("steps"):
        return _step_runs_code({"tool": "run_code", "expect": case.get("expect", {})})
    return any(map(_step_runs_code, case["steps"]))


def _step_runs_code(step):
    if step.get("tool") == "run_code":
        expect = step.get("expect", {})
        return not any(e.get("refused") for e in [expect, *expect.get("any_of", [])])
    inner = [step[k] for k in ("call", "during", "start_call") if k in step]
    return any(map(_step_runs_code, inner + step.get("parallel", [])))
