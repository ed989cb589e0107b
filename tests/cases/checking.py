"""Checks: how they are written down, run and counted."""

import time
import traceback

CHECKS = []


class Wrong(Exception):
    """A check does not hold."""


class Skip(Exception):
    """A check can't be run here."""


def check(name, *arguments):
    """Makes a function a check, called with the arguments; it may be one for each of several names."""

    def register(function):
        CHECKS.append((name, function, arguments))
        return function

    return register


def expect(holds, why):
    if not holds:
        raise Wrong(why)


def figure(text):
    print(f"figure: {text}", flush=True)


def is_chosen(name, parts):
    wanted = tuple(part for part in parts if not part.startswith("-"))
    others = tuple(part[1:] for part in parts if part.startswith("-"))
    return (not wanted or name.startswith(wanted)) and not name.startswith(others)


def run_all(parts, always=()):
    """Runs the checks that the parts choose by the beginnings of their names, and some always. The exit code."""
    count = {"ok": 0, "FAIL": 0, "skipped:": 0}
    for name, function, arguments in CHECKS:
        if not is_chosen(name, parts) and name not in always:
            continue
        start = time.monotonic()
        verdict, why = outcome(function, arguments)
        count[verdict] += 1
        took = f" ({time.monotonic() - start:.1f} s)" if verdict == "ok" else ""
        print(f"{verdict} {name}{took}{why and ': ' + why}", flush=True)
    print(f"{count['ok']} passed, {count['FAIL']} failed, {count['skipped:']} skipped")
    return 1 if count["FAIL"] or not count["ok"] else 0


def outcome(function, arguments):
    try:
        function(*arguments)
        return "ok", ""
    except Skip as reason:
        return "skipped:", str(reason)
    except Wrong as why:
        return "FAIL", one_line(why)
    except Exception as error:  # one check that breaks down must not take the others with it
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.name}, line {place.lineno}"
        return "FAIL", one_line(f"{type(error).__name__}: {error} ({where})")


def one_line(text):
    return " | ".join(str(text).splitlines())
