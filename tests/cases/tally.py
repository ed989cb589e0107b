"""Whether the audit log has every call of `run_code` that was answered."""

import json
import os

# What the answer to a call holds that left no record: the log's own place may be wrong then.
SETTING = "where your MCP client sets this server's environment"


class Tally:
    """Counts the calls of all servers that keep their log in `folder`."""

    def __init__(self, folder):
        self.folder, self.answered = folder, 0

    def answer(self, message):
        content = (message.get("result") or {}).get("content") or [{}]
        if "result" in message and SETTING not in content[0].get("text", ""):
            self.answered += 1

    def finding(self):
        """What is missing, or None."""
        calls = {}
        for name in sorted(os.listdir(self.folder)) if os.path.isdir(self.folder) else []:
            with open(os.path.join(self.folder, name), encoding="utf-8") as f:
                for line in f:
                    record = json.loads(line)
                    calls.setdefault(record["id"], []).append(record["event"])
        whole = sum(events in (["blocked"], ["start", "end"]) for events in calls.values())
        if not self.answered or whole < self.answered:
            return f"{self.answered} calls were answered, {whole} have whole records"
        return None
