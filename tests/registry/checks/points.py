"""The points that a setup from images must get right, and which checks prove each."""

import functools
import os
from concurrent.futures import ThreadPoolExecutor

from checking import Skip, check, is_chosen

TITLES = {
    1: "names",
    2: "parents that are links",
    3: "files over links, folders and hard links",
    4: "hard links",
    5: "whiteouts",
    6: "kinds that replace one another",
    7: "modes",
    8: "devices, pipes and sockets",
    9: "owners, extended attributes and capabilities",
    10: "limits",
    11: "compression and media types",
    12: "atomicity",
    13: "a second look without the network",
    14: "platforms and pins",
    15: "transport",
}
# Of each check that belongs to a point: its name, and whether it passed (None: it was skipped).
RESULTS = {point: {} for point in TITLES}
DECLARED = {point: set() for point in TITLES}


class Early:
    """Checks that mostly wait, for a setup that tries again: all begin when the first of them is due."""

    waiting, running = {}, None

    @classmethod
    def result(cls, name):
        if cls.running is None:
            chosen = os.environ.get("CHECK_PARTS", "").split()
            pool = ThreadPoolExecutor(8)
            begun = {one: pool.submit(*call) for one, call in cls.waiting.items() if is_chosen(one, chosen)}
            cls.running = begun
        return cls.running[name].result()


def proves(name, *points, arguments=(), early=False):
    """Makes a function a check that belongs to these points. It may run beside others if it is `early`."""

    def register(function):
        for point in points:
            DECLARED[point].add(name)
        if early:
            Early.waiting[name] = (function, *arguments)

        @functools.wraps(function)
        def noted(*given):
            verdict = False
            try:
                Early.result(name) if early else function(*given)
                verdict = True
            except Skip:
                verdict = None
                raise
            finally:
                for point in points:
                    RESULTS[point][name] = verdict

        check(name, *arguments)(noted)
        return function

    return register
