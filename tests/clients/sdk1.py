"""The Python SDK 1.x, which opens with a handshake: sdk1.py SERVER [ARG...]"""

import asyncio
from datetime import timedelta

from common import LONG, Checks, server, text
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import McpError

checks = Checks()


async def raises(what, call):
    """The error of a call that has to fail."""
    try:
        checks.expect(False, what, await call)
    except McpError as error:
        return error


async def session(s):
    opening = await s.initialize()
    revision = opening.protocolVersion
    checks.expect(revision == "2025-11-25", "revision 2025-11-25", revision)
    names = sorted(t.name for t in (await s.list_tools()).tools)
    checks.expect(names == ["read_workspace", "run_code"], "two tools", names)
    code = {"language": "python", "code": "print('hello', 6 * 7)"}
    r = await s.call_tool("run_code", code)
    checks.expect(not r.isError, "no error", r)
    checks.ran(text(r), "hello 42", "run_code")
    r = await s.call_tool("run_code", {"language": "cobol", "code": "x"})
    checks.expect(r.isError and text(r).startswith("Blocked:"), "`Blocked:` for a bad argument", r)
    r = await s.call_tool("read_workspace", {"path": "."})
    checks.expect(not r.isError and text(r), "read_workspace('.')", r)
    error = await raises("an unknown tool to raise", s.call_tool("nope", {}))
    checks.expect(error and error.error.code == -32602, "-32602 for an unknown tool", error)
    limit = timedelta(seconds=1)
    call = s.call_tool("run_code", LONG, read_timeout_seconds=limit)
    error = await raises("a timeout on the client's side", call)
    checks.expect("imed out" in str(error), "a timeout on the client's side", error)
    r = await s.call_tool("run_code", {"language": "python", "code": "print('next')"})
    checks.ran(text(r), "next", "the call after a timeout")


async def main():
    command, args, env = server()
    start = StdioServerParameters(command=command, args=args, env=env)
    async with stdio_client(start) as (r, w), ClientSession(r, w) as s:
        await session(s)
    # With the bad argument and the call that was given up.
    checks.recorded(env, 4, "audit")


asyncio.run(asyncio.wait_for(main(), 90))
checks.end()
