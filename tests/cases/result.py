"""One answer to a call, taken apart, and the comparison with what a case expects."""

import re

# The lines that may follow the last stream, in any number and order.
TAIL = ("note:", "usage:", "limits hit:", "blocked syscalls:", "audit:", "isolation:")
STREAM = re.compile(r"^(stdout|stderr):$")


class Result:
    """The text of one answer, in parts. A refusal has no exit code."""

    def __init__(self, text="", rpc_error=False, is_error=False, wall=0.0, missing=None):
        self.text, self.rpc_error, self.is_error = text, rpc_error, is_error
        self.wall, self.missing = wall, missing
        self.exit_code = None
        self.stdout = self.stderr = self.head = ""
        self.usage = self.isolation = self.denied_line = None
        self.denied = []
        self._parse(text.split("\n"))
        self.timed_out = "timed out" in self.head.lower()

    @property
    def refused(self):
        refusal = self.rpc_error or self.is_error or self.text.startswith("Blocked:")
        return self.missing is None and self.exit_code is None and refusal

    def _parse(self, lines):
        first = next((i for i, s in enumerate(lines[:8]) if s.startswith("exit_code:")), None)
        if first is None:
            self.head = self.text[:300]
            return
        self.head = "\n".join(lines[:first])
        found = re.match(r"exit_code:\s*(-?\d+)", lines[first])
        self.exit_code = int(found.group(1)) if found else None
        end = len(lines)
        while end > first + 1 and (lines[end - 1] == "" or lines[end - 1].startswith(TAIL)):
            end -= 1
        self._parse_tail(lines[end:])
        self._parse_streams(lines[first + 1 : end])

    def _parse_tail(self, lines):
        for line in lines:
            if line.startswith("usage:"):
                self.usage = line
            elif line.startswith("blocked syscalls:"):
                self.denied_line = line
                self.denied = re.findall(r"[a-z0-9_]+", line.split(":", 1)[1])
            elif line.startswith("isolation:"):
                self.isolation = line[len("isolation:") :].strip()

    def _parse_streams(self, lines):
        start = next((i for i, s in enumerate(lines) if STREAM.match(s)), len(lines))
        lines = lines[start:]
        if lines and lines[0] == "stdout:":
            end = next((i for i, s in enumerate(lines) if s == "stderr:"), len(lines))
            self.stdout, lines = "\n".join(lines[1:end]), lines[end:]
        if lines:
            self.stderr = "\n".join(lines[1:])

    def part(self, name):
        """The text that an expectation's prefix names."""
        parts = {
            "stdout": self.stdout,
            "stderr": self.stderr,
            "result": self.text,
            "usage": self.usage,
            "isolation": self.isolation,
        }
        return parts[name] or ""


def short(s, n=160):
    """A value on one line of ASCII, short enough for a message."""
    s = s if isinstance(s, str) else repr(s)
    s = s.encode("unicode_escape", "backslashreplace").decode("ascii")
    return s if len(s) <= n else s[:n] + "..."


def as_list(v):
    return v if isinstance(v, list) else [v]


def _equals(res, part, want):
    return res.part(part).strip("\n") == want.strip("\n")


def _regex(res, part, want):
    return re.search(want, res.part(part), re.S | re.M) is not None


# Expectations on a part of the text: suffix of the key -> test(result, part, wanted).
ON_PARTS = {
    "_not_contains": lambda res, part, want: not any(w in res.part(part) for w in as_list(want)),
    "_contains": lambda res, part, want: all(w in res.part(part) for w in as_list(want)),
    "_not_regex": lambda res, part, want: not _regex(res, part, want),
    "_regex": _regex,
    "_equals": _equals,
    "_absent": lambda res, part, want: (res.part(part).strip() == "") == want,
}
# Expectations on the whole: key -> (test(result, wanted), what was got instead).
ON_WHOLE = {
    "exit_code": (lambda r, w: r.exit_code in as_list(w), lambda r: f"{r.exit_code}: {r.text}"),
    "exit_code_not": (
        lambda r, w: r.exit_code is not None and r.exit_code not in as_list(w),
        lambda r: r.exit_code,
    ),
    "timed_out": (lambda r, w: r.timed_out == w, lambda r: r.text),
    "refused": (lambda r, w: bool(r.refused) == w, lambda r: r.text),
    "rpc_error": (lambda r, w: r.rpc_error == w, lambda r: r.text),
    "result_max_chars": (lambda r, w: len(r.text) <= w, lambda r: len(r.text)),
    "max_wall_s": (lambda r, w: r.wall <= w, lambda r: round(r.wall, 1)),
    "min_wall_s": (lambda r, w: r.wall >= w, lambda r: round(r.wall, 2)),
    "denied_syscalls_contains": (
        lambda r, w: all(name in r.denied for name in as_list(w)),
        lambda r: r.denied_line or "no such line",
    ),
    "denied_syscalls_line": (
        lambda r, w: bool(r.denied_line) == w,
        lambda r: r.denied_line or "no such line",
    ),
}
NO_TEST = ("any_of", "must_hold", "no_answer_ok", "note")


def check(res, exp):
    """The expectations that do not hold, as messages."""
    if res.missing:
        return [] if exp.get("no_answer_ok") else [res.missing]
    bad = []
    if "any_of" in exp:
        outcomes = [check(res, alternative) for alternative in exp["any_of"]]
        if all(outcomes):
            bad.append("none of the alternatives holds: " + " | ".join(o[0] for o in outcomes))
    for key, want in exp.items():
        if key not in NO_TEST:
            bad += _check_one(res, key, want)
    return bad


def _check_one(res, key, want):
    if key in ON_WHOLE:
        test, got = ON_WHOLE[key]
        ok, got = test(res, want), got(res)
    else:
        suffix = next((s for s in ON_PARTS if key.endswith(s)), None)
        if suffix is None:
            return [f"unknown expectation {key!r}"]
        part = key[: -len(suffix)]
        ok, got = ON_PARTS[suffix](res, part, want), res.part(part)
    return [] if ok else [f"{key}: wanted {short(want, 90)}, got {short(got)}"]
