"""Checks the wire behaviour of a Vestibule MCP server over stdio, in both protocol eras.

    python3 tests/wire [--env K=V]... [--only NAME]... [--list] [-v] -- SERVER [ARG...]

Each check starts servers of its own, with an empty HOME and with no more of an environment than
MCP clients are sure to pass on (--env adds to it), under a time limit of its own. A tester who is
root starts them as uid AS_UID (12345) without capabilities. Python 3.9 or newer, no packages.
Exit code: 0 all passed, 1 some failed, 2 wrong usage.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time

import checks_opening  # noqa: F401  (importing a module registers its checks, in this order)
import checks_tools  # noqa: F401
import checks_dispatch  # noqa: F401
import checks_framing  # noqa: F401
import checks_calls  # noqa: F401
import checks_ending  # noqa: F401
import checks_results  # noqa: F401
import checks_workspace  # noqa: F401
import checks_settings  # noqa: F401
from common import ROOT, UID
from context import CHECKS, run_check


def options():
    ap = argparse.ArgumentParser(
        prog="tests/wire",
        description=__doc__.partition("\n")[0],
        usage="%(prog)s [OPTION]... -- SERVER [ARG...]",
    )
    ap.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="a variable for every server"
    )
    ap.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="only checks whose name starts so",
    )
    ap.add_argument("--list", action="store_true", help="print the checks and exit")
    ap.add_argument("-v", action="store_true", dest="verbose", help="print passed checks too")
    ap.add_argument("server", nargs=argparse.REMAINDER)
    opt = ap.parse_args()
    if opt.list:
        return opt
    opt.server = opt.server[1:] if opt.server[:1] == ["--"] else opt.server
    if not opt.server or any("=" not in e for e in opt.env):
        ap.error("a server is needed, and --env takes K=V")
    opt.env = dict(e.split("=", 1) for e in opt.env)
    program = shutil.which(opt.server[0])
    if not program:
        ap.error(f"no program {opt.server[0]}")
    opt.server[0] = os.path.abspath(program)  # servers are started in other folders
    drop = {"user": UID, "group": UID, "extra_groups": []} if ROOT else {}
    if subprocess.run(["test", "-x", opt.server[0]], **drop).returncode:
        ap.error(f"uid {UID} may not run {opt.server[0]}: is a folder above it closed to others?")
    return opt


def main():
    opt = options()
    if opt.list:
        for name, (f, _) in CHECKS.items():
            print(f"{name:24} {f.__doc__}")
        return 0
    names = [n for n in CHECKS if not opt.only or any(n.startswith(o) for o in opt.only)]
    count = {"ok": 0, "FAIL": 0, "skipped": 0}
    for name in names:
        start = time.monotonic()
        why, errors, remarks = run_check(name, opt)
        verdict = "FAIL" if errors else "skipped" if why else "ok"
        count[verdict] += 1
        if errors:
            more = f" (and {len(errors) - 3} more)" if len(errors) > 3 else ""
            print(f"FAIL {name}: {'; '.join(errors[:3])}{more}", flush=True)
        elif why:
            print(f"skipped: {name}: {why}", flush=True)
        elif opt.verbose:
            print(f"ok   {name} ({time.monotonic() - start:.1f} s)", flush=True)
        for remark in remarks if opt.verbose or name == "start-fast" else []:
            print(f"     {name}: {remark}", flush=True)
    print(f"{count['ok']} passed, {count['FAIL']} failed, {count['skipped']} skipped")
    return 1 if count["FAIL"] or not names else 0


if __name__ == "__main__":
    sys.exit(main())
