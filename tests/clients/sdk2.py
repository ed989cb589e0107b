"""The Python SDK 2.x in each of its modes: sdk2.py SERVER [ARG...]"""

import asyncio

import anyio
from common import LONG, Checks, server, text
from mcp import Client, StdioServerParameters

checks = Checks()
MODES = (("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28"))


async def session(s, mode, revision):
    got = s.protocol_version
    checks.expect(got == revision, f"{mode}: revision {revision}", got)
    names = sorted(t.name for t in (await s.list_tools()).tools)
    checks.expect(names == ["read_workspace", "run_code"], f"{mode}: two tools", names)
    code = {"language": "python", "code": "print('hello', 6 * 7)"}
    r = await s.call_tool("run_code", code)
    checks.expect(not r.is_error, f"{mode}: no error", r)
    checks.ran(text(r), "hello 42", f"{mode}: run_code")
    r = await s.call_tool("run_code", {"language": "python", "code": ""})
    refused = r.is_error and text(r).startswith("Blocked:")
    checks.expect(refused, f"{mode}: `Blocked:` for a bad argument", r)
    r = await s.call_tool("read_workspace", {"path": "."})
    checks.expect(not r.is_error and text(r), f"{mode}: read_workspace('.')", r)
    try:
        checks.expect(False, f"{mode}: an unknown tool to raise", await s.call_tool("nope", {}))
    except Exception as error:
        checks.expect("nope" in str(error), f"{mode}: an error that names the tool", error)
    await progress(s, mode)
    try:
        with anyio.fail_after(1):
            checks.expect(False, f"{mode}: a cancelled call", await s.call_tool("run_code", LONG))
    except TimeoutError:
        checks.expect(True, "")
    r = await s.call_tool("run_code", {"language": "python", "code": "print('next')"})
    checks.ran(text(r), "next", f"{mode}: the call after a cancelled one")


async def progress(s, mode):
    seen = []

    async def note(value, total, message):
        seen.append(value)

    code = {"language": "python", "code": "import time; time.sleep(5)"}
    await s.call_tool("run_code", code, progress_callback=note)
    increasing = len(seen) >= 2 and seen == sorted(set(seen))
    checks.expect(increasing, f"{mode}: increasing progress in a run of 5 s", seen)


async def one(mode, revision):
    command, args, env = server()
    start = StdioServerParameters(command=command, args=args, env=env)
    async with Client(start, mode=mode) as s:
        await session(s, mode, revision)
    # With the bad argument and the call that was given up.
    checks.recorded(env, 5, mode)


async def main():
    for mode, revision in MODES:
        try:
            await asyncio.wait_for(one(mode, revision), 60)
        except Exception as error:
            checks.expect(False, f"{mode}: no exception", repr(error))


asyncio.run(main())
checks.end()
