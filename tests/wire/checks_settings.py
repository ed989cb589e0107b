"""Settings: structured results, wrong values, a start as root."""

import re

from checks_tools import tools_of
from common import ROOT, Skip, cut, text_of
from context import check


def valid(v, schema, root=None):
    """the first reason why v does not fit a JSON Schema, or None (the keywords a result schema needs)"""
    root = root if root is not None else schema
    if schema is True or schema == {}:
        return None
    if schema is False:
        return "not allowed"
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].lstrip("#/").split("/"):
            target = target[part]
        return valid(v, target, root)
    types = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "null": type(None),
        "number": (int, float),
        "integer": int,
    }
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(
            isinstance(v, types[n]) and not (isinstance(v, bool) and n in ("integer", "number"))
            for n in names
        ):
            return f"{cut(v, 60)} is no {'/'.join(names)}"
    if "enum" in schema and v not in schema["enum"]:
        return f"{v!r} not in {schema['enum']}"
    if "const" in schema and v != schema["const"]:
        return f"{v!r} is not {schema['const']!r}"
    if (
        isinstance(v, (int, float))
        and not isinstance(v, bool)
        and not schema.get("minimum", v) <= v <= schema.get("maximum", v)
    ):
        return f"{v} is out of range"
    for k in ("anyOf", "oneOf"):
        if k in schema and all(valid(v, x, root) for x in schema[k]):
            return f"{cut(v, 60)} fits none of {k}"
    for x in schema.get("allOf", []):
        if why := valid(v, x, root):
            return why
    if isinstance(v, list) and isinstance(schema.get("items"), dict):
        for x in v:
            if why := valid(x, schema["items"], root):
                return why
    if isinstance(v, dict):
        props = schema.get("properties", {})
        for n in schema.get("required", []):
            if n not in v:
                return f"{n} is missing"
        for n, x in v.items():
            if why := valid(x, props.get(n, schema.get("additionalProperties", True)), root):
                return f"{n}: {why}"
    return None


@check("structured", 40)
def structured(c):
    """VESTIBULE_STRUCTURED=1: outputSchema published, structuredContent fits it and holds every fact"""
    for era, s in c.both(env={"VESTIBULE_STRUCTURED": "1"}):
        tools = tools_of(s)
        schema = tools["run_code"].get("outputSchema")
        c.need(
            isinstance(schema, dict) and schema.get("type") == "object",
            f"an outputSchema of type object for run_code ({era})",
            schema,
        )
        runs = (
            (
                "import sys\nprint('o', 'o')\nprint('e', 'e', file=sys.stderr)\nsys.exit(5)",
                {},
                {"stdout": "o o", "stderr": "e e", "exit_code": 5},
            ),
            ("pass", {}, {"stdout": "", "stderr": "", "exit_code": 0}),
            (
                "print('p', flush=True); import time; time.sleep(60)",
                {"timeout_seconds": 1},
                {"stdout": "p", "exit_code": -1},
            ),
        )
        for code, args, want in runs:
            r, t = s.run(code, **args)
            v = r.get("structuredContent")
            c.need(isinstance(v, dict), f"structuredContent ({era})", r)
            why = valid(v, schema)
            c.expect(not why, f"structuredContent to fit the outputSchema ({era})", why)
            got = {k: x.strip() if isinstance(x := v.get(k), str) else x for k in want}
            c.expect(
                got == want and t.endswith("isolation: " + str(v.get("isolation"))),
                f"{want} and the isolation of the text ({era})",
                v,
            )
        c.blocked(s.call("run_code", {"language": "python"}), ["code"], f"a bad argument ({era})")
        r = s.call("read_workspace", {})
        if "outputSchema" in tools["read_workspace"]:
            why = valid(r.get("structuredContent"), tools["read_workspace"]["outputSchema"])
            c.expect(not why, f"read_workspace to fit its outputSchema ({era})", why)
        else:
            c.expect("structuredContent" not in r or "content" in r, "text from read_workspace", r)


@check("invalid-setting")
def invalid_setting(c):
    """an invalid setting never stops the server; every call is `Blocked:` and names it and its value"""
    for name, value in (
        ("VESTIBULE_MAX_TIMEOUT_S", "soon"),
        ("VESTIBULE_MEM_MB", "-3"),
        ("VESTIBULE_STRUCTURED", "perhaps"),
        ("VESTIBULE_BACKEND", "magic"),
    ):
        s = c.server({name: value})
        c.expect(len(tools_of(s)) == 2, "both tools listed", "not")
        for tool, args in (
            ("run_code", {"language": "python", "code": "print(1)"}),
            ("read_workspace", {}),
        ):
            c.blocked(s.call(tool, args), [name, value], f"{tool} with {name}={value}")
        s.lives("an invalid setting")
    s = c.server({"VESTIBULE_MAX_TIMEOUT_S": "  ", "VESTIBULE_STRUCTURED": ""})
    s.run("print(1)")  # blank counts as unset


@check("root-refused")
def root_refused(c):
    """a server that runs as root answers, but refuses every run"""
    if not ROOT:
        raise Skip("needs root")
    s = c.server(as_root=True)
    r = s.call("run_code", {"language": "python", "code": "print(1)"})
    c.blocked(r, [], "a run as root")
    c.expect(re.search(r"root|uid 0", text_of(r)), "the reason", text_of(r))
