"""How the two tools describe themselves."""

import itertools

from common import Fail, MAX_CODE, MAX_OUT, cut, number_in
from context import check


def tools_of(s):
    m = s.ask("tools/list")
    if "tools" not in m.get("result", {}):
        raise Fail(f"expected a list of tools, got {cut(m)}")
    return {t["name"]: t for t in m["result"]["tools"]}


@check("tools-exactly-two")
def tools_exactly_two(c):
    """run_code and read_workspace, in the same order and with the same text each time, in both eras"""
    lists = []
    for era, s in itertools.chain(c.both(), c.both()):
        m = s.ask("tools/list")
        lists.append(m.get("result", {}).get("tools", m))
        c.expect(
            sorted(t["name"] for t in lists[-1]) == ["read_workspace", "run_code"],
            f"exactly the two tools ({era})",
            [t["name"] for t in lists[-1]],
        )
        c.expect("nextCursor" not in m.get("result", {}), "no nextCursor", m)
    c.expect(
        all(x == lists[0] for x in lists),
        "the same list from every start and era",
        "different lists",
    )


@check("tools-annotations")
def tools_annotations(c):
    """titles and annotations; destructive only while the workspace is writable"""
    for ro in (False, True):
        tools = tools_of(c.server({"VESTIBULE_WORKSPACE_RO": "1"} if ro else {}))
        want = {
            "run_code": {
                "readOnlyHint": False,
                "destructiveHint": not ro,
                "idempotentHint": False,
                "openWorldHint": False,
            },
            "read_workspace": {"readOnlyHint": True, "openWorldHint": False},
        }
        for name, a in want.items():
            got = tools[name].get("annotations", {})
            c.expect(
                all(got.get(k) is v for k, v in a.items()),
                f"{name} with {a}{' (workspace read-only)' if ro else ''}",
                got,
            )
            c.expect(
                tools[name].get("title") or got.get("title"), f"a title for {name}", tools[name]
            )


@check("tools-schema")
def tools_schema(c):
    """input schemas: arguments, enum, required, and the configured limits"""
    for env, default, most in (
        ({}, 10, 60),
        ({"VESTIBULE_DEFAULT_TIMEOUT_S": "7", "VESTIBULE_MAX_TIMEOUT_S": "33"}, 7, 33),
    ):
        tools = tools_of(c.server(env))
        for name, args, required in (
            ("run_code", ["code", "language", "timeout_seconds"], ["code", "language"]),
            ("read_workspace", ["path"], []),
        ):
            sch = tools[name].get("inputSchema", {})
            c.expect(
                sch.get("type") == "object" and sorted(sch.get("properties", {})) == args,
                f"{name} to take the arguments {args}",
                sch,
            )
            c.expect(
                sorted(sch.get("required", [])) == required
                and sch.get("additionalProperties") is False,
                f"{name} to require {required} and allow no others",
                sch,
            )
        p = tools["run_code"]["inputSchema"]["properties"]
        c.expect(
            sorted(p["language"].get("enum", [])) == ["bash", "node", "python"],
            "language as an enum of three",
            p["language"],
        )
        c.expect(p["code"].get("type") == "string", "code as a string", p["code"])
        t = p["timeout_seconds"]
        c.expect(
            (t.get("type"), t.get("minimum"), t.get("maximum"), t.get("default"))
            == ("integer", 1, most, default),
            f"timeout_seconds as integer, 1 to {most}, default {default}",
            t,
        )
        p = tools["read_workspace"]["inputSchema"]["properties"]["path"]
        c.expect(
            p.get("type") == "string" and p.get("default") == ".",
            "path as a string, default '.'",
            p,
        )


@check("tools-description")
def tools_description(c):
    """the description names the configured limits, the missing network, /workspace and read_workspace"""
    env = {
        "VESTIBULE_DEFAULT_TIMEOUT_S": "7",
        "VESTIBULE_MAX_TIMEOUT_S": "33",
        "VESTIBULE_MAX_CODE_BYTES": "54321",
        "VESTIBULE_MAX_OUTPUT_BYTES": "23456",
        "VESTIBULE_MEM_MB": "319",
    }
    for e, numbers in (({}, (10, 60, MAX_CODE, MAX_OUT)), (env, (7, 33, 54321, 23456))):
        d = tools_of(c.server(e))["run_code"].get("description", "")
        for n in numbers:
            c.expect(number_in(n, d), f"the limit {n} in the description of run_code", d)
        for word in ("network", "/workspace", "read_workspace"):
            c.expect(word in d, f"{word!r} in the description of run_code", d)


@check("tools-no-output-schema")
def tools_no_output_schema(c):
    """without VESTIBULE_STRUCTURED no tool declares an outputSchema and no result has structuredContent"""
    for era, s in c.both():
        c.expect(
            not [t for t in tools_of(s).values() if "outputSchema" in t],
            f"no outputSchema ({era})",
            "one",
        )
        r, _ = s.run("print(1)")
        c.expect("structuredContent" not in r, f"no structuredContent ({era})", r)


@check("tools-max-result-size")
def tools_max_result_size(c):
    """_meta carries anthropic/maxResultSizeChars, enough for two full streams, following the setting"""
    for env, out in (({}, MAX_OUT), ({"VESTIBULE_MAX_OUTPUT_BYTES": "150000"}, 150000)):
        for name, t in tools_of(c.server(env)).items():
            n = t.get("_meta", {}).get("anthropic/maxResultSizeChars")
            if name == "run_code":
                c.expect(isinstance(n, int) and n >= 2 * out, f"at least {2 * out} for {name}", n)
