"""Checks the container backend with one kind of engine.

    CHECK_KIND=… CHECK_WORK=… CHECK_PERSON=… python3 checks VARIABLE=VALUE...

The variables are what the server is given beside what MCP clients pass on. Called by `run`, as root: the
server itself runs as the person. In a virtual machine it is the person who calls, with CHECK_LEVEL=… for
the isolation that must be named and CHECK_SLOW=… for how many times as long everything may take. Prints
a line for each check and last `N passed, N failed, N skipped`.
"""

import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# The MCP client and the harness of the cases are used here too.
sys.path.append(os.path.join(os.path.dirname(HERE), "cases"))

# In this order: the last ones stop the engine. A rootless Docker without a network of its own, as here, may
# not reach this machine's registries any more once it has run a container.
MODULES = "setup level probe limits walls ends reaping refusals figures faults".split()
AUDIT = "audit-of-every-call"


def main():
    checking = importlib.import_module("checking")
    for module in MODULES:
        importlib.import_module("check_" + module)
    checking.check(AUDIT)(importlib.import_module("host").PLACE.every_call_has_its_records)
    return checking.run_all(os.environ.get("CHECK_PARTS", "").split(), [AUDIT])


if __name__ == "__main__":
    sys.exit(main())
