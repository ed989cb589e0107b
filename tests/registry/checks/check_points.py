"""One line for each point, out of the checks that belong to it."""

import os

from checking import Skip, check, expect

from points import DECLARED, RESULTS, TITLES


def point(number):
    results = RESULTS[number]
    if not results and os.environ.get("CHECK_PARTS"):
        raise Skip("none of its checks was chosen")
    failed = sorted(name for name, verdict in results.items() if verdict is False)
    expect(not failed, f"failed: {', '.join(failed)}")
    if not os.environ.get("CHECK_PARTS"):
        lost = DECLARED[number] - set(results)
        expect(not lost, f"did not run: {', '.join(sorted(lost))}")
    if not any(results.values()):
        raise Skip("all of its checks were skipped")


for number, title in TITLES.items():
    check(f"point {number}: {title}", number)(point)
