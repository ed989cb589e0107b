"""The opening of a session in both eras, and what a start costs."""

import os
import statistics

from common import INFO, LEGACY, META, MODERN, PREFIX, key, number_in, read
from context import check


@check("init-revisions")
def init_revisions(c):
    """initialize answers each handshake revision with itself"""
    for v in LEGACY:
        r = c.server(handshake=False).initialize(v)
        c.expect(
            r.get("protocolVersion") == v, f"revision {v} to be echoed", r.get("protocolVersion")
        )


@check("init-unknown-revisions")
def init_unknown_revisions(c):
    """initialize with a revision it can't serve by handshake offers the newest handshake revision"""
    for v in (MODERN, "2030-01-01", "1999-01-01", "garbage", ""):
        r = c.server(handshake=False).initialize(v)
        c.expect(
            r.get("protocolVersion") == LEGACY[-1],
            f"{LEGACY[-1]} offered for {v!r}",
            r.get("protocolVersion"),
        )


@check("init-result")
def init_result(c):
    """server info, tools capability alone, short instructions that carry the limits"""
    r = c.server(
        {"VESTIBULE_MAX_TIMEOUT_S": "33", "VESTIBULE_DEFAULT_TIMEOUT_S": "7"}, handshake=False
    ).initialize()
    info, text = r.get("serverInfo", {}), r.get("instructions", "")
    c.expect(
        "vestibule" in info.get("name", "").lower() and info.get("version"),
        "serverInfo of vestibule with a version",
        info,
    )
    c.expect(
        list(r.get("capabilities", {})) == ["tools"],
        "the capability `tools` and no other",
        r.get("capabilities"),
    )
    c.expect(
        0 < len(text) <= 2000 and number_in(33, text),
        "instructions of at most 2000 characters naming the limit 33 s",
        text,
    )


@check("init-malformed")
def init_malformed(c):
    """initialize without its params is -32602 and does not end the process"""
    s = c.server(handshake=False)
    c.error(s.ask("initialize", {}), [-32602], "initialize without protocolVersion")
    s.initialize(id=2)


@check("init-twice")
def init_twice(c):
    """a second initialize is answered and the session lives"""
    s = c.server()
    s.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO})
    s.lives("a second initialize")


@check("discover")
def discover(c):
    """server/discover as the first message"""
    s = c.server(modern=True)
    m = s.ask("server/discover")
    r = m.get("result", {})
    c.expect(MODERN in r.get("supportedVersions", []), f"supportedVersions with {MODERN}", m)
    c.expect(
        list(r.get("capabilities", {})) == ["tools"],
        "the capability `tools` and no other",
        r.get("capabilities"),
    )
    c.expect(r.get("resultType") == "complete", "resultType complete", r.get("resultType"))
    c.expect(
        isinstance(r.get("ttlMs"), int) and r.get("cacheScope") in ("public", "private"),
        "ttlMs and cacheScope",
        r,
    )
    c.expect(
        "vestibule"
        in str(r.get("_meta", {}).get(PREFIX + "serverInfo", r.get("serverInfo"))).lower(),
        "serverInfo in _meta",
        r,
    )
    c.expect(r.get("instructions"), "instructions", r)


@check("modern-calls")
def modern_calls(c):
    """stateless requests work without any opening; results carry resultType, lists a ttl"""
    s = c.server(modern=True)
    r = s.ask("tools/list").get("result", {})
    c.expect(
        r.get("resultType") == "complete"
        and isinstance(r.get("ttlMs"), int)
        and r.get("cacheScope") in ("public", "private"),
        "tools/list with resultType, ttlMs, cacheScope",
        r,
    )
    r, t = s.run("print('from', 'modern')")
    c.expect(r.get("resultType") == "complete", "tools/call with resultType complete", r)
    c.expect("from modern" in t, "the printed text", t)
    c.expect(
        PREFIX + "serverInfo" in r.get("_meta", {}),
        "serverInfo in the _meta of tools/call",
        r.get("_meta"),
    )
    legacy = c.server().ask("tools/list").get("result", {})
    c.expect(
        "resultType" not in legacy,
        "no resultType for a handshake session",
        legacy.get("resultType"),
    )


@check("modern-missing-meta")
def modern_missing_meta(c):
    """a request with neither handshake nor _meta is -32602; the process goes on"""
    s = c.server(handshake=False)
    for m in ("server/discover", "tools/list", "tools/call"):
        c.error(
            s.ask(m, {"name": "read_workspace", "arguments": {}} if m == "tools/call" else {}),
            [-32602],
            f"{m} without _meta",
        )
    part = {k: v for k, v in META.items() if "Capabilities" not in k}
    c.error(s.ask("tools/list", {}, meta=part), [-32602], "tools/list without clientCapabilities")
    s.initialize()


@check("modern-unknown-revision")
def modern_unknown_revision(c):
    """an unknown revision in _meta is -32022 with `supported` and `requested`"""
    s = c.server(modern=True)
    for method in ("server/discover", "tools/list"):
        m = s.ask(method, {}, meta={PREFIX + "protocolVersion": "2031-01-01"})
        data = m.get("error", {}).get("data") or {}
        if c.error(m, [-32022], f"{method} of 2031-01-01"):
            c.expect(
                MODERN in data.get("supported", []) and data.get("requested") == "2031-01-01",
                "data with supported and requested",
                m,
            )
    s.lives("an unknown revision")


@check("mixed-eras")
def mixed_eras(c):
    """discover, then initialize, then requests of both eras in one process"""
    s = c.server(handshake=False)
    c.need(
        "result" in s.ask("server/discover", {}, meta=META),
        "server/discover to be answered",
        s.answers,
    )
    s.initialize(id=2)
    c.expect("result" in s.ask("tools/list"), "a handshake tools/list", "an error")
    c.expect(
        "result" in s.ask("tools/list", {}, meta=META),
        "a stateless tools/list in the same process",
        "an error",
    )


@check("notification-first")
def notification_first(c):
    """notifications before the first request are ignored, whatever they are"""
    for opening in (
        [("notifications/cancelled", {"requestId": 1})],
        [("notifications/initialized", None)],
        [("notifications/foo", {})],
        [("notifications/cancelled", None)],
    ):
        s = c.server(handshake=False)
        for m, p in opening:
            s.notify(m, p)
        s.initialize()
    s = c.server(handshake=False)  # a client whose probe timed out
    s.ask("server/discover", {}, meta=META, id=1)
    s.notify("notifications/cancelled", {"requestId": 1})
    s.initialize(id=2)
    s.lives("discover, cancelled, initialize")


@check("garbage-first")
def garbage_first(c):
    """a line of garbage or an unknown method before the first request does not end the process"""
    s = c.server(handshake=False)
    s.raw(b"hello\n{}\n[]\n")
    c.expect("error" in s.ask("foo/bar", {}), "an error for an unknown method", s.answers)
    s.initialize()


@check("start-no-side-effect")
def start_no_side_effect(c):
    """initialize, discover, tools/list and end of input leave no file and start no process"""
    tmp, run = c.folder("tmp"), c.folder("run")
    s = c.server({"TMPDIR": tmp, "XDG_RUNTIME_DIR": run}, keep_settings=False)
    s.ask("tools/list")
    s.ask("server/discover", {}, meta=META)
    c.expect(
        len(s.family()) == 1,
        "no child process",
        [read(f"/proc/{p}/cmdline").decode() for p, _ in s.family()],
    )
    s.close_stdin()
    s.exit_status(2)
    made = [
        os.path.join(d, n)
        for top in (s.home, s.cwd, tmp, run)
        for d, ds, fs in os.walk(top)
        for n in ds + fs
    ]
    c.expect(not made, "empty HOME, working, temporary and runtime folders", made)


@check("start-fast")
def start_fast(c):
    """initialize is answered fast: median of 10 process starts"""
    times = []
    for _ in range(10):
        s = c.server(handshake=False)
        s.request(
            "initialize",
            {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": INFO},
            id=1,
        )
        s.answer(1)
        times.append((s.answers[key(1)][0][0] - s.started) * 1000)
    median = statistics.median(times)
    c.remark(
        f"initialize answered after {median:.1f} ms (median of 10; {min(times):.1f} to {max(times):.1f})"
    )
    c.expect(median <= 100, "a median of at most 100 ms", f"{median:.1f} ms")
