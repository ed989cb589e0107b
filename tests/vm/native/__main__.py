"""Proves native isolation with a cgroup per run, inside a virtual machine.

    python3 native [PART]...        in the folder with the two programs and the folder `cases`

PARTs are the beginnings of names of checks; without any, all are run, and `-PART` leaves some out.
Run it as an ordinary user of a host with systemd and cgroup v2. Prints a line for each check,
`figure:` lines with what was measured, and last `N passed, N failed, N skipped`. Python 3.9 or newer,
no packages.
"""

import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# The MCP client of the cases is used here too.
sys.path.append(os.path.join(os.path.dirname(HERE), "cases"))

# In this order: the last of them looks whether all that went before has left something.
MODULES = "isolation limits memory bombs cpu usage many figures ways older kills faults images leftovers".split()
AUDIT = "audit-of-every-call"


def main():
    checking = importlib.import_module("checking")
    for module in MODULES:
        importlib.import_module("check_" + module)
    checking.check(AUDIT)(importlib.import_module("client").PLACE.every_call_has_its_records)
    return checking.run_all(sys.argv[1:], [AUDIT])


if __name__ == "__main__":
    sys.exit(main())
