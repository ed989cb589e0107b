"""Whether the audit log has every call of `run_code` that was answered."""

import hashlib
import json
import os
from collections import Counter

# What the answer to a call holds that left no record: the log's own place may be wrong then.
SETTING = "where your MCP client sets this server's environment"
WHOLE = (["blocked"], ["start", "end"])


def code_of(params):
    """What a call is known again by: the hash of its code, as its record has it, or None without any."""
    code = (params.get("arguments") or {}).get("code")
    return hashed(code) if isinstance(code, str) else None


def hashed(code):
    # A lone surrogate never comes to the server.
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


class Tally:
    """Counts the calls of all servers that keep their log in `folder`, by their code."""

    def __init__(self, folder):
        self.folder, self.calls = folder, Counter()

    @property
    def answered(self):
        return sum(self.calls.values())

    def answer(self, code, message):
        content = (message.get("result") or {}).get("content") or [{}]
        if "result" in message and SETTING not in content[0].get("text", ""):
            self.calls[code] += 1

    def ran(self, code):
        """A command that is recorded as a call is."""
        self.calls[hashed(code)] += 1

    def finding(self):
        """What is missing, or None. Records of a cancelled call make up for none that was answered."""
        missing = sum((self.calls - Counter(self._recorded())).values())
        if not self.answered or missing:
            return f"{self.answered} calls were answered, {missing} of them without whole records"
        return None

    def _recorded(self):
        calls = {}
        for name in sorted(os.listdir(self.folder)) if os.path.isdir(self.folder) else []:
            with open(os.path.join(self.folder, name), encoding="utf-8") as f:
                for line in f:
                    record = json.loads(line)
                    calls.setdefault(record["id"], []).append(record)
        for records in calls.values():
            events = [record["event"] for record in records]
            if events in WHOLE and records[-1].get("outcome") != "cancelled":
                yield records[0].get("code_sha256")
