"""What both clients share: the server's command line, and assertions that are counted."""

import json
import os
import sys
import tempfile

# A run that is given up on by its client.
LONG = {"language": "python", "code": "import time; time.sleep(30)", "timeout_seconds": 40}


def server():
    """Program, arguments and environment of the server named on the command line."""
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} SERVER [ARG...]")
    home = tempfile.mkdtemp(prefix="home-")
    env = {
        "HOME": home,
        "LOGNAME": "tester",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "USER": "tester",
    }
    settings = {k: v for k, v in os.environ.items() if k.startswith("VESTIBULE_")}
    return sys.argv[1], sys.argv[2:], {**env, **settings}


class Checks:
    """Counts what holds and prints what does not."""

    passed = failed = 0

    def expect(self, ok, what, got=""):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAIL {what}, got {str(got)[:300]!r}")

    def ran(self, text, printed, label):
        lines = text.strip().split("\n")
        self.expect("exit_code: 0" in lines, f"{label}: a line `exit_code: 0`", text)
        self.expect(printed in lines, f"{label}: the printed line {printed!r}", text)
        last = lines[-1].startswith("isolation:")
        self.expect(last, f"{label}: a last line `isolation: ...`", text)

    def recorded(self, env, calls, label):
        """Whether the audit log of a server that has ended holds so many calls, each whole."""
        folder, events = os.path.join(env["HOME"], ".vestibule", "audit"), {}
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            with open(os.path.join(folder, name), encoding="utf-8") as lines:
                for record in map(json.loads, lines):
                    events.setdefault(record["id"], []).append(record["event"])
        whole = [some for some in events.values() if some in (["blocked"], ["start", "end"])]
        self.expect(len(whole) == len(events) == calls, f"{label}: audit records of {calls} calls", events)

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed, 0 skipped")
        sys.exit(1 if self.failed or not self.passed else 0)


def text(result):
    """The text blocks of a result, joined."""
    return "\n".join(b.text for b in result.content if b.type == "text")
