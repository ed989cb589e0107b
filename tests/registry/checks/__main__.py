"""Checks `vestibule-mcp setup` against registries on this machine.

    CHECK_WORK=… CHECK_UID=… python3 checks

CHECK_WORK is a folder with the programs, the harness of the cases, and images/python.tar and node.tar. Called
by `run`; as root, the command runs as CHECK_UID. Prints a line for each check, a line for each of the points
that an unpacker of images must get right, and last `N passed, N failed, N skipped`.
"""

import importlib
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# The harness of the cases is used here too.
sys.path.append(os.path.join(os.path.dirname(HERE), "cases"))

# The points look at what the others found.
MODULES = "stand good people platform transport sources hostile limits damage alone folder kills gone points".split()


def main():
    # So that whatever was started is stopped on the way out; and a shell has its background jobs, with all
    # that they start, ignore SIGINT.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    checking = importlib.import_module("checking")
    for module in MODULES:
        importlib.import_module("check_" + module)
    return checking.run_all(os.environ.get("CHECK_PARTS", "").split())


if __name__ == "__main__":
    sys.exit(main())
