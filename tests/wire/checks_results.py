"""The text of a result, and what a guest can and cannot put into it."""

import re
import time

from common import MAX_OUT, number_in, text_of
from context import check


def block(text, name):
    """the lines of the stdout: or stderr: part"""
    after = "stderr:|(?:note|usage|limits hit|blocked syscalls|audit|isolation): .*"
    m = re.search(rf"(?ms)^{name}:\n(.*?)\n(?=(?:{after})$)", text)
    return m and m.group(1)


@check("result-text")
def result_text(c):
    """exit_code, stdout, stderr, isolation in this order; empty parts left out; a failing run is no error"""
    s = c.server()
    r, t = s.run(
        "import sys\nprint('out', 'line')\nprint('err', 'line', file=sys.stderr)\nsys.exit(3)"
    )
    lines = t.split("\n")
    c.expect(len(r["content"]) == 1, "one text block", r["content"])
    c.expect(lines[0] == "exit_code: 3", "the first line `exit_code: 3`", t)
    c.expect(
        block(t, "stdout") == "out line" and block(t, "stderr") == "err line",
        "the blocks stdout: and stderr:",
        t,
    )
    c.expect(
        0 <= t.find("stdout:\n") < t.find("stderr:\n") < t.find("\nisolation: "),
        "stdout before stderr before isolation",
        t,
    )
    c.expect(re.match(r"isolation: \S", lines[-1]), "a last line `isolation: ...`", lines[-1])
    c.expect(re.search(r"(?m)^usage: wall ", t), "a line `usage: wall ...`", t)
    c.expect(not r.get("isError"), "a failing run to be no tool error", r)
    _, t = s.run("print('a', 'b')")
    c.expect(block(t, "stdout") == "a b" and "stderr:" not in t, "no stderr part when empty", t)
    _, t = s.run("pass")
    c.expect(
        t.startswith("exit_code: 0\n") and "stdout:" not in t and "stderr:" not in t,
        "no empty parts",
        t,
    )
    _, t = s.run("echo from bash; exit 0", language="bash")
    c.expect(block(t, "stdout") == "from bash", "bash to work", t)


@check("result-signal")
def result_signal(c):
    """a guest killed by signal N has exit code 128+N and a line that names the signal"""
    s = c.server()
    _, t = s.run("import os; os.kill(os.getpid(), 11)")
    c.expect(
        "\nexit_code: 139\n" in t and t.startswith("[killed by SIGSEGV]\n"),
        "[killed by SIGSEGV] and exit_code: 139",
        t,
    )


@check("result-timeout")
def result_timeout(c):
    """a timeout: first line, exit_code -1, output until then, no tool error"""
    s = c.server()
    t0 = time.monotonic()
    r, t = s.run(
        "import time; print('until', 'then', flush=True); time.sleep(60)", timeout_seconds=1
    )
    c.expect(
        t.startswith("[timed out after 1 s and was terminated]\n") and "\nexit_code: -1\n" in t,
        "[timed out after 1 s ...] and exit_code: -1",
        t,
    )
    c.expect(block(t, "stdout") == "until then", "the output until then", t)
    c.expect(
        1 <= time.monotonic() - t0 < 4, "an answer after 1 to 4 s", f"{time.monotonic() - t0:.1f} s"
    )


@check("result-background")
def result_background(c):
    """a background process that holds stdout neither delays the result nor survives it"""
    s = c.server()
    t0 = time.monotonic()
    _, t = s.run(f"sleep {s.mark} & sleep {s.mark} </dev/null & disown; echo done", language="bash")
    c.expect(
        time.monotonic() - t0 < 4 and block(t, "stdout") == "done" and "exit_code: 0" in t,
        "`done` within 4 s",
        f"{time.monotonic() - t0:.1f} s: {t}",
    )
    time.sleep(0.3)
    c.expect(not s.guests(), "no process of the run left", s.guests())


@check("result-cut")
def result_cut(c):
    """output is cut at the cap on a character boundary, with the number of bytes left out"""
    s = c.server()
    _, t = s.run("print('x' + 'é' * 15000, end='')")
    body = block(t, "stdout") or ""
    c.expect(
        "\ufffd" not in t and body.count("é") in (9998, 9999),
        "19999 bytes of whole characters",
        f"{body.count('é')} characters, {len(body)} in all",
    )
    c.expect(
        number_in(30001 - 1 - 2 * body.count("é"), t),
        "a line with the number of bytes left out",
        t[-300:],
    )
    _, t = s.run("b = 'y' * 65536\nwhile True: print(b)", timeout_seconds=20)
    c.expect(
        len(t) < MAX_OUT + 3000 and "exit_code: -1" in t and t.startswith("["),
        "a flood to be stopped, with a first line that says so",
        t[:120] + "..." + t[-200:],
    )
    _, t = s.run("import sys; sys.stdout.buffer.write(b'a\\xff\\xfeb\\n')")
    c.expect("a\ufffd" in t and "b" in t, "invalid bytes replaced", t)


@check("result-meta")
def result_meta(c):
    """the facts stand in _meta under vestibule/run"""
    for era, s in c.both():
        r, _ = s.run("import sys; print('x'); sys.exit(4)")
        m = r.get("_meta", {}).get("vestibule/run")
        c.expect(
            isinstance(m, dict) and m.get("exit_code") == 4 and isinstance(m.get("isolation"), str),
            f"exit_code 4 and isolation in vestibule/run ({era})",
            r.get("_meta"),
        )


@check("stdout-pure")
def stdout_pure(c):
    """guest output with JSON-RPC, newlines, escapes and broken bytes stays inside the result"""
    fake = '{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}'
    code = f"""import os, sys
for fd in (1, 2):
    os.write(fd, b'''\\n{fake % 992}\\r\\n\\x1b[31m\\x00\\x07\\xff\\xfe \\xe2\\x80\\xa8\\n''')
for path in ('/proc/1/fd/1', '/proc/self/fd/1', '/dev/stdout', '/dev/tty'):
    try:
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, b'{fake % 993}\\n')
        os.close(fd)
    except OSError: pass
for fd in range(3, 64):
    try: os.write(fd, b'{fake % 994}\\n')
    except OSError: pass
"""
    for era, s in c.both():
        _, t = s.run(code)
        c.expect(fake % 992 in t, f"the JSON line inside the text ({era})", t)
        c.expect(fake % 994 not in t, f"no way out through other descriptors ({era})", t)
        time.sleep(0.3)
        s.lives("guest output that looks like JSON-RPC")


@check("guest-stdin")
def guest_stdin(c):
    """the guest's stdin is at its end; it never reads the server's"""
    s = c.server()
    id = s.start_run("import sys, time; time.sleep(0.5); print(repr(sys.stdin.read()))")
    pings = [s.request("ping") for _ in range(20)]
    for p in pings:
        s.answer(p, 5)
    t = text_of(s.answer(id).get("result", {"content": []}))
    c.expect("''" in t, "an empty stdin", t)
    s.lives("a guest that reads stdin")


@check("guest-environment")
def guest_environment(c):
    """nothing of the server's environment reaches the guest"""
    s = c.server({"AWS_SECRET_ACCESS_KEY": "plantedvalue", "VESTIBULE_LOG": "info"})
    _, t = s.run("import os\nprint(dict(os.environ))\nprint('HOME is', os.environ.get('HOME'))")
    c.expect(
        "plantedvalue" not in t
        and "VESTIBULE_TEST_MARK" not in t
        and "VESTIBULE_" not in t
        and s.home not in t,
        "an environment of Vestibule's making",
        t,
    )
