"""Runs the cases of a JSON Lines file against a Vestibule server over stdio.

    python3 tests/cases [OPTION]... -- SERVER [ARG...]

README.md describes the fields of a case. Prints one line per failing case and, last,
`N passed, N failed, N skipped`. Exit code: 0 none failed, 1 some failed, 2 wrong usage.
Python 3.9 or newer, no packages. Run it as an ordinary user: Vestibule refuses root.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time

from ability import Ability
from fixtures import Fixtures
from runner import Runner
from server import ServerDied

HERE = os.path.dirname(os.path.abspath(__file__))


def load(path):
    """The cases of a file, in its order; an id that comes twice is a fault of the file."""
    cases = {}
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            case = json.loads(line)
            if case["id"] in cases:
                raise ValueError(f"{path}:{number}: second case {case['id']}")
            cases[case["id"]] = case
    return list(cases.values())


def options():
    names = lambda text: [name for name in text.split(",") if name]  # noqa: E731
    ap = argparse.ArgumentParser(
        prog="tests/cases",
        usage="%(prog)s [OPTION]... -- SERVER [ARG...]",
        description=__doc__.partition("\n")[0],
    )
    option = ap.add_argument
    option("--cases", default=os.path.join(HERE, "cases.jsonl"), metavar="FILE")
    option("--group", default=[], type=names, help="only these groups, comma-separated")
    option("--id", default=[], type=names, help="only these ids, comma-separated")
    option("--skip-needs", default=[], type=names, help="skip cases that need any of these")
    option("--env", action="append", default=[], metavar="K=V", help="a variable for the server")
    option("--heavy", action="store_true", help="also run the heavy cases")
    option("--grace", type=float, default=30, help="seconds past its timeout until a call hangs")
    option("--slow", type=int, default=1, metavar="N", help="N times the time for code, if emulated")
    option("--list", action="store_true", help="list the cases and stop")
    option("-v", "--verbose", action="store_true", help="one line for every case")
    option("cmd", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    o = ap.parse_args()
    o.cmd = o.cmd[1:] if o.cmd[:1] == ["--"] else o.cmd
    if not (o.cmd or o.list) or any("=" not in e for e in o.env):
        ap.error("a server is needed, and --env takes K=V")
    o.env = dict(e.split("=", 1) for e in o.env)
    return o


def run_all(o, cases, work):
    """Runs the cases and prints their verdicts: how many passed, failed, were skipped."""
    fixtures = Fixtures(work)
    runner = Runner(o, fixtures)
    count = {"ok": 0, "FAIL": 0, "skipped:": 0}
    try:
        ability = Ability(runner.caller(), fixtures, o)
        if o.verbose:
            print(f"isolation: {ability.isolation or ability.kind}")
        for finding in ability.findings:
            print(f"FAIL probe: {finding}")
            count["FAIL"] += 1
        for case in cases:
            start = time.monotonic()
            why = ability.skip_reason(case)
            bad = None if why else runner.run_case(case)
            verdict = "skipped:" if why else "FAIL" if bad else "ok"
            count[verdict] += 1
            if o.verbose or verdict != "ok":
                detail = f": {why or bad}" if why or bad else ""
                took = f" ({time.monotonic() - start:.1f} s)" if not why else ""
                print(f"{verdict} {case['group']}/{case['id']}{detail}{took}", flush=True)
        runner.drop_shared()
        finding = fixtures.tally.finding()
        count["FAIL" if finding else "ok"] += 1
        if finding:
            print(f"FAIL audit/every-call: {finding}")
    finally:
        runner.drop_shared()
        fixtures.close()
        fixtures.clean_workspace()
    return count


def main():
    o = options()
    cases = [
        case
        for case in load(o.cases)
        if (not o.group or case["group"] in o.group) and (not o.id or case["id"] in o.id)
    ]
    if o.list:
        for case in cases:
            print(f"{case['group']:12} {case['id']:36} {case['title']}")
        return 0
    work = os.path.realpath(tempfile.mkdtemp(prefix="cases-"))
    try:
        count = run_all(o, cases, work)
    except ServerDied as error:
        print(f"FAIL the server does not start: {error}")
        count = {"ok": 0, "FAIL": len(cases) or 1, "skipped:": 0}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{count['ok']} passed, {count['FAIL']} failed, {count['skipped:']} skipped")
    return 1 if count["FAIL"] or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
