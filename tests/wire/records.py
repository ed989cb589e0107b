"""Whether a server's audit log has every call of `run_code` that it answered."""

import json
import os

from common import key, text_of

# What the answer to a call holds that left no record: the log's own place may be wrong then.
SETTING = "where your MCP client sets this server's environment"


def lacking(server):
    """What is missing, or None. Call it before the server's folders go."""
    if server.elsewhere:
        return None
    answered = sum(
        1
        for sent in server.runs
        for _, message in server.answers.get(sent, [])
        if "result" in message and SETTING not in text_of(message["result"])
    )
    calls = {}
    folder = os.path.join(server.home, ".vestibule", "audit")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            for line in f:
                record = json.loads(line)
                calls.setdefault(record["id"], []).append(record["event"])
    whole = [events for events in calls.values() if events in (["blocked"], ["start", "end"])]
    if len(whole) < answered:
        return f"{answered} calls answered, and whole records of {len(whole)} in the audit log"
    return None


def note(server, message):
    """Remembers a call of `run_code` that is sent."""
    params = message.get("params")
    if message.get("method") == "tools/call" and isinstance(params, dict) and "id" in message:
        if params.get("name") == "run_code":
            server.runs.add(key(message["id"]))
