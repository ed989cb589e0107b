"""Runs the cases of tests/cases that a cgroup bears on, or a part of all of them.

    python3 native/developer_cases.py [NUMBER/COUNT]

Without an argument: what needs limits or usage, and all about resources and the life of runs. 2/3 is
the second third of all cases: a virtual machine may not live long enough for the whole.
"""

import json
import os
import sys

PROGRAMS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# Sixty runs in a row; a check of this folder makes two hundred, which takes long enough here.
TWICE = "life-many-runs-leak-nothing"


def bears_on(case):
    needs = {"cgroup", "usage"} & set(case.get("needs", []))
    about = needs or case["group"] in ("lifecycle", "resources")
    return about and not case.get("heavy") and case["id"] != TWICE


def main():
    with open(os.path.join(PROGRAMS, "cases", "cases.jsonl"), encoding="utf-8") as f:
        cases = [json.loads(line) for line in f]
    if len(sys.argv) > 1:
        number, count = map(int, sys.argv[1].split("/"))
        # One of every COUNT: neighbours are alike, and the parts then take about as long.
        chosen = cases[number - 1 :: count]
    else:
        chosen = [case for case in cases if bears_on(case)]
    ids = ",".join(case["id"] for case in chosen)
    os.chdir(PROGRAMS)
    options = ["--verbose", "--id", ids]
    server = os.path.join(PROGRAMS, "vestibule-mcp")
    os.execvp("python3", ["python3", "cases", *options, "--", server])


if __name__ == "__main__":
    main()
