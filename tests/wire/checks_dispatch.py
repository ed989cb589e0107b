"""Requests that name something wrong: tools, parameters, arguments, methods."""

import os
import re
import time

from common import MAX_CODE, key
from context import check


@check("unknown-tool")
def unknown_tool(c):
    """an unknown tool is -32602 and named"""
    for era, s in c.both():
        for name in ("nope", "run_code ", "Run_Code", "run_code\0"):
            m = s.ask("tools/call", {"name": name, "arguments": {}})
            c.error(m, [-32602], f"the tool {name!r} ({era})")
            if name == "nope":
                c.expect(
                    "nope" in m.get("error", {}).get("message", ""),
                    "the message to name the tool",
                    m,
                )
        s.lives("unknown tools")


@check("malformed-params")
def malformed_params(c):
    """malformed tools/call parameters are -32602 under their own id"""
    for era, s in c.both():
        for p in (
            {"arguments": {}},
            {"name": 5, "arguments": {}},
            {"name": None},
            {"name": ["run_code"]},
            {"name": "run_code", "arguments": [1]},
            {"name": "run_code", "arguments": "x"},
            {"name": "run_code", "arguments": 5},
            {"name": "read_workspace", "arguments": True},
        ):
            c.error(s.ask("tools/call", p), [-32602], f"params {p} ({era})")
        for p in ([], [1], "x", 5):
            i = next(s.ids)
            s.send({"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": p})
            c.error(s.answer(i, 5), [-32602, -32600], f"params {p!r} ({era})")
        i = next(s.ids)
        s.send({"jsonrpc": "2.0", "id": i, "method": "tools/call"})
        c.error(s.answer(i, 5), [-32602], f"no params at all ({era})")
        s.lives("malformed params")


BAD_ARGUMENTS = (
    [("language", {"code": "print(1)"})]
    + [
        ("language", {"language": v, "code": "print(1)"})
        for v in ("ruby", "", "PYTHON", 7, 1.5, None, True, ["python"], {"a": 1})
    ]
    + [("code", {"language": "python"})]
    + [
        ("code", {"language": "python", "code": v})
        for v in ("", " \n\t ", 5, None, False, ["print(1)"], {"a": 1})
    ]
    + [
        ("timeout_seconds", {"language": "python", "code": "print(1)", "timeout_seconds": v})
        for v in (0, -1, -(10**30), 1.5, "5", True, [], {}, 1e-3)
    ]
    + [
        ("stdin", {"language": "python", "code": "print(1)", "stdin": "x"}),
        ("zzz", {"language": "bash", "code": "true", "zzz": None}),
    ]
)


@check("bad-arguments", 60)
def bad_arguments(c):
    """each kind of bad run_code argument is isError with `Blocked:` naming it; the session lives"""
    for era, s in c.both():
        for name, args in BAD_ARGUMENTS:
            c.blocked(s.call("run_code", args), [name], f"{args} ({era})")
        for size, code in (
            (MAX_CODE + 1, "#" * (MAX_CODE + 1)),
            (MAX_CODE + 2, "#" * MAX_CODE + "é"),
        ):
            c.blocked(
                s.call("run_code", {"language": "python", "code": code}),
                ["code"],
                f"code of {size} bytes ({era})",
            )
        i = s.request("tools/call", {"name": "run_code"})
        c.blocked(
            s.answer(i).get("result", {"content": []}), ["language"], f"no arguments at all ({era})"
        )
        _, t = s.run("print('still', 'fine')")
        c.expect("still fine" in t, "a good call to work afterwards", t)


@check("bad-paths", 30)
def bad_paths(c):
    """read_workspace refuses what leads out of the workspace or is no plain file, without blocking"""
    ws = c.folder("ws")
    os.symlink("/etc/passwd", f"{ws}/link")
    os.symlink("/etc", f"{ws}/dir")
    os.symlink("plain", f"{ws}/inner")
    os.mkfifo(f"{ws}/fifo")
    open(f"{ws}/plain", "w").close()
    s = c.server({"VESTIBULE_WORKSPACE": ws})
    for v in (5, ["."], {}, True):
        c.blocked(s.call("read_workspace", {"path": v}), ["path"], f"path {v!r}")
    c.blocked(s.call("read_workspace", {"path": ".", "zzz": 1}), ["zzz"], "an extra argument")
    for v in (
        "..",
        "../x",
        "a/../../x",
        "/etc/passwd",
        "/",
        "a\0b",
        "..\\x",
        "C:\\x",
        "link",
        "dir/passwd",
        "inner",
        "fifo",
    ):
        c.blocked(s.call("read_workspace", {"path": v}, 5), [], f"path {v!r}")
    s.lives("refused paths")


@check("timeout-clamped")
def timeout_clamped(c):
    """a timeout above the maximum is clamped and the result says so"""
    s = c.server({"VESTIBULE_MAX_TIMEOUT_S": "2", "VESTIBULE_DEFAULT_TIMEOUT_S": "1"})
    for big in (3, 10**6, 10**15):
        _, t = s.run("print('ran')", timeout_seconds=big)
        c.expect("ran" in t and "exit_code: 0" in t, f"timeout_seconds {big} to run", t)
        c.expect(
            re.search(r"(?im)^(?!stdout|ran).*(clamp|maximum|limit|reduced|lowered).*\b2\b", t),
            "a line that says that it was clamped to 2",
            t,
        )
    _, t = s.run("import time; time.sleep(30)", timeout_seconds=50)
    c.expect(t.startswith("[timed out after 2 s"), "the clamped timeout to hold", t)


@check("unknown-methods")
def unknown_methods(c):
    """unknown methods and everything about resources, prompts, logging, tasks are -32601"""
    for era, s in c.both():
        for m, p in (
            ("foo/bar", {}),
            ("resources/list", {}),
            ("resources/read", {"uri": "file:///x"}),
            ("resources/templates/list", {}),
            ("prompts/list", {}),
            ("prompts/get", {"name": "x"}),
            ("logging/setLevel", {"level": "debug"}),
            (
                "completion/complete",
                {
                    "ref": {"type": "ref/prompt", "name": "x"},
                    "argument": {"name": "a", "value": "b"},
                },
            ),
            ("tasks/list", {}),
            ("", {}),
        ):
            c.error(s.ask(m, p), [-32601], f"{m!r} ({era})")
        s.lives("unknown methods")
    c.error(
        c.server(modern=True).ask(
            "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
        ),
        [-32601],
        "subscriptions/listen",
    )


@check("ping")
def ping(c):
    """ping is answered in a handshake session (also while a run is going on) and unknown in 2026-07-28"""
    s = c.server()
    m = s.ask("ping")
    c.expect(m.get("result") == {}, "an empty result", m)
    s.start_busy()
    t = time.monotonic()
    s.ask("ping", None, 5)
    c.expect(
        time.monotonic() - t < 1,
        "a ping during a run to be answered within 1 s",
        f"{time.monotonic() - t:.2f} s",
    )
    c.error(c.server(modern=True).ask("ping"), [-32601], "ping in 2026-07-28")


@check("unasked-messages")
def unasked_messages(c):
    """unknown notifications, answers to nothing and cancellations of nothing are ignored"""
    s = c.server()
    i = s.request("ping")
    s.answer(i)
    for m in (
        {"method": "notifications/foo"},
        {"method": "notifications/cancelled", "params": {"requestId": i}},
        {"method": "notifications/cancelled", "params": {"requestId": "never"}},
        {"method": "notifications/cancelled"},
        {"method": "notifications/cancelled", "params": {}},
        {"method": "notifications/cancelled", "params": [1]},
        {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
        {"id": 4711, "result": {}},
        {"id": 4712, "error": {"code": 1, "message": "x"}},
    ):
        s.send({"jsonrpc": "2.0", **m})
        s.lives(f"{m}")
    c.expect(
        len(s.answers.get(key(i), [])) == 1 and not s.notes,
        "silence about them",
        [s.answers.get(key(i)), s.notes],
    )
