"""Lines that a parser of JSON or JSON-RPC stumbles over."""

import json
import time

from common import INFO, LEGACY, MAX_CODE, META, key, text_of
from context import check


def broken_line(s, id, code, extra="", id_last=False):
    meta = f',"_meta":{json.dumps(META)}' if s.modern else ""
    arguments = f'{{"language":"python","code":{code}{extra}}}'
    params = f'{{"name":"run_code","arguments":{arguments}{meta}}}'
    body = f'"method":"tools/call","params":{params}'
    line = (
        f'{{{body},"jsonrpc":"2.0","id":{json.dumps(id)}}}'
        if id_last
        else f'{{"jsonrpc":"2.0","id":{json.dumps(id)},{body}}}'
    )
    s.raw(line.encode() + b"\n", id)


def refused(c, m, what):
    """an error, or the Blocked: result of a tool"""
    if "error" in m:
        c.error(m, [-32700, -32600, -32602], what)
    else:
        c.expect(
            m["result"].get("isError") is True and text_of(m["result"]).startswith("Blocked:"),
            f"{what} to be refused",
            m,
        )


@check("lone-surrogate")
def lone_surrogate(c):
    """a lone surrogate is answered under its own id, wherever the id stands in the line"""
    for era, s in c.both():
        for n, (code, extra) in enumerate(
            (
                ('"\\ud800"', ""),
                ('"x\\udc00y"', ""),
                ('"\\ud800"', ',"x":{"id":990}'),
                ('"\\ud83d \\"id\\":991"', ""),
            )
        ):
            for last in (False, True):
                for id in (300 + 2 * n + last, f"s{n}{last}"):
                    broken_line(s, id, code, extra, last)
                    refused(
                        c,
                        s.answer(id, 5),
                        f"a lone surrogate ({era}, id {id!r} {'last' if last else 'first'})",
                    )
        s.lives("lone surrogates")
    _, t = c.server().run("print('\U0001f600')")
    c.expect("\U0001f600" in t, "a proper surrogate pair to be fine", t)


@check("deep-nesting")
def deep_nesting(c):
    """nesting over any parser's limit is answered under its own id"""
    for era, s in c.both():
        for n, depth in enumerate((200, 20000)):
            for last in (False, True):
                id = 300 + 2 * n + last
                broken_line(s, id, '"print(1)"', ',"d":' + "[" * depth + "]" * depth, last)
                refused(
                    c, s.answer(id, 5), f"{depth} levels ({era}, id {'last' if last else 'first'})"
                )
        s.lives("deep nesting")


@check("long-line", 60)
def long_line(c):
    """a line of 20 MiB is answered; the largest allowed code passes even when every character is escaped"""
    for era, s in c.both():
        for last in (False, True):
            broken_line(s, 300 + last, json.dumps("#" * (20 << 20)), "", last)
            refused(
                c, s.answer(300 + last, 20), f"20 MiB ({era}, id {'last' if last else 'first'})"
            )
        s.lives("a line of 20 MiB")
    broken_line(
        s, 310, '"' + "".join("\\u%04x" % ord(x) for x in "print(1)#" + "#" * (MAX_CODE - 9)) + '"'
    )
    m = s.answer(310, 20)
    c.expect(
        "exit_code: 0" in text_of(m.get("result", {"content": []})),
        f"{MAX_CODE} bytes of code in escapes to run",
        m,
    )


@check("duplicate-id")
def duplicate_id(c):
    """an id already in flight is refused and the first call keeps its answer"""
    for era, s in c.both():
        for word in ("first", "second"):
            s.start_run(
                f"import time; print('{word}', 'call', flush=True); time.sleep(1.5)", id=300
            )
        s.answer(300, 10, nth=2)
        got = [m for _, m in s.answers[key(300)]]
        bad, good = [m for m in got if "error" in m], [m for m in got if "result" in m]
        c.need(len(bad) == 1 and len(good) == 1, f"one error and one result ({era})", got)
        c.error(bad[0], [-32600, -32602], f"the second call ({era})")
        c.expect(
            "first call" in text_of(good[0]["result"]),
            f"the result of the first call ({era})",
            good[0],
        )
        s.lives("a duplicate id")


@check("invalid-json")
def invalid_json(c):
    """lines that are no JSON: answered when an id can be read, else ignored; never `id: null`"""
    s = c.server()
    for line in (
        b"this is not json",
        b"{",
        b'{"jsonrpc":"2.0","id":',
        b"\xff\xfe\x00",
        b'"x"',
        b"42",
        b"null",
        b"true",
        b"{}",
        b'{"a":',
        b"{'id': 5}",
        b"\x00",
    ):
        s.raw(line + b"\n")
        s.lives(f"the line {line!r}")
    s.raw(b'{"jsonrpc":"2.0","id":301,"method":"ping",}\n', 301)
    c.error(s.answer(301, 5), [-32700, -32600], "a trailing comma")
    s.raw(b'{"jsonrpc":"2.0","id":302,"method":"p\xffng"}\n', 302)
    c.error(s.answer(302, 5), [-32700, -32600, -32601], "invalid UTF-8")
    s.lives("invalid JSON")


@check("invalid-request")
def invalid_request(c):
    """JSON that is no valid request: refused or ignored, never `id: null`, session lives"""
    s = c.server()
    for m in (
        {"jsonrpc": "1.0", "id": 303, "method": "ping"},
        {"id": 304, "method": "ping"},
        {"jsonrpc": "2.0", "id": 305},
        {"jsonrpc": "2.0", "id": 306, "method": 5},
        {"jsonrpc": "2.0", "id": 307, "method": None},
    ):
        s.send(m)
        s.lives(str(m))
        got = s.answers.get(key(m["id"]))
        if "method" in m:
            c.expect(not got or "error" in got[0][1], f"{m} to be refused", got)
    s.lives("invalid requests")


@check("null-and-odd-ids")
def null_and_odd_ids(c):
    """null, fractional, boolean, object ids: never answered with `id: null`, session lives"""
    for era, s in c.both():
        for id in (None, 1.5, True, [], {}):
            s.send(
                {
                    "jsonrpc": "2.0",
                    "id": id,
                    "method": "tools/call" if id is None else "tools/list",
                    "params": {"_meta": META} if s.modern else {},
                }
            )
            s.lives(f"id {id!r}")


@check("batch")
def batch(c):
    """a batch is refused or ignored as a whole, without `id: null`; the session lives"""
    for era, s in c.both():
        for line in (
            b'[{"jsonrpc":"2.0","id":311,"method":"ping"},{"jsonrpc":"2.0","id":312,"method":"ping"}]',
            b"[]",
            b"[1,2]",
        ):
            s.raw(line + b"\n")
            s.lives(f"the batch {line!r}")
        c.expect(key(311) not in s.answers, "no answers to the parts", s.answers.get(key(311)))


@check("line-endings")
def line_endings(c):
    """CRLF, a byte order mark, blank lines and spaces around a message are accepted"""
    s = c.server(handshake=False)
    hello = {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": INFO}
    opening = {"jsonrpc": "2.0", "id": 320, "method": "initialize", "params": hello}
    s.raw(b"\xef\xbb\xbf" + json.dumps(opening).encode() + b"\r\n", 320)
    c.need("result" in s.answer(320, 5), "initialize behind a byte order mark", s.answers)
    s.raw(b'\n\r\n   \n\t\n{"jsonrpc":"2.0","id":321,"method":"ping"}\r\n', 321)
    s.answer(321, 5)
    s.raw(b'\xef\xbb\xbf  {"jsonrpc": "2.0",\t"id": 322, "method": "ping"}  \n\n', 322)
    s.answer(322, 5)


@check("split-and-joined")
def split_and_joined(c):
    """messages cut at any byte or sent many at once are all answered"""
    s = c.server()
    line = (
        json.dumps({"jsonrpc": "2.0", "id": "zwölf", "method": "ping"}, ensure_ascii=False).encode()
        + b"\n"
    )
    for b in line:
        s.raw(bytes([b]), "zwölf")
        time.sleep(0.002)
    s.answer("zwölf", 5)
    ids = list(range(1000, 1300))
    s.raw(
        b"".join(
            b'{"jsonrpc":"2.0","id":%d,"method":"%s"}\n' % (i, b"ping" if i % 2 else b"tools/list")
            for i in ids
        ),
        *ids,
    )
    for i in ids:
        s.answer(i, 10)


@check("nul-in-strings")
def nul_in_strings(c):
    """NUL in a string is answered: as code, as method, as id, as path"""
    s = c.server()
    m = s.ask(
        "tools/call",
        {"name": "run_code", "arguments": {"language": "python", "code": "print(1)\0print(2)"}},
    )
    c.expect("result" in m, "a result for code with NUL", m)
    c.error(s.ask("pi\0ng", {}), [-32601], "a method with NUL")
    s.ask("ping", id="a\0b")
    s.lives("NUL")


@check("ids")
def ids(c):
    """string and number ids come back unchanged; \"77\" and 77 are two ids"""
    for era, s in c.both():
        for id in ("abc", "", "1", 'ünï\n"', "x" * 300, "null", 0, -1, 2**53 - 1):
            m = s.ask("tools/list", {}, id=id)
            c.expect("result" in m, f"id {id!r} ({era})", m)
        s.start_run("print('number', 'id')", id=77)
        s.start_run("print('string', 'id')", id="77")
        for id, word in ((77, "number id"), ("77", "string id")):
            c.expect(
                word in text_of(s.answer(id).get("result", {"content": []})),
                f"{word} answered under {id!r} ({era})",
                s.answers[key(id)],
            )
