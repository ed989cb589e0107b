"""Measures Vestibule next to the bare interpreters and bubblewrap: see `run`.

    bench FOLDER CRATES ROUNDS

FOLDER holds the programs and a C hello. Prints a table of medians, then each promised figure with
what was measured.
"""

import os
import random
import statistics
import sys

import images
from contestants import SCRIPTS, Server, Wrong, bare, bubblewrap, jail, spawn

WARM_UP = 3

# What bare python takes on the machine, left alone, for which the promises in ms were made. One that
# is slower is slower for all contestants alike.
REFERENCE_PYTHON_MS = 10.3


def race(contestants, rounds):
    """Lets everyone take turns, so that a slow moment of the machine hits all: median times.

    The order is drawn anew for each round: whoever follows a sandbox starts while the kernel still
    takes its network namespace apart, and with a fixed order that would always hit the same one.
    """
    times = {name: [] for name in contestants}
    order = random.Random(1)
    for number in range(rounds + WARM_UP):
        for name in order.sample(list(contestants), len(contestants)):
            took = contestants[name]()
            if number >= WARM_UP:
                times[name].append(took)
    return {name: statistics.median(taken) for name, taken in times.items()}


def runs(folder, work, rounds):
    """The table of runs: {language: {contestant: median}}."""
    server = Server(os.path.join(folder, "vestibule-mcp"))
    helper = os.path.join(folder, "vestibule-jail")
    table = {}
    print(f"{'median ms of ' + str(rounds):20}{'bare':>9}{'bwrap':>9}{'jail':>9}{'server':>9}")
    for language in SCRIPTS:
        row = race(
            {
                "bare": bare(work, language),
                "bwrap": bubblewrap(work, language),
                "jail": jail(work, language, helper),
                "server": lambda language=language: server.run(language),
            },
            rounds,
        )
        table[language] = row
        print(f"{language:20}" + "".join(f"{ms:9.2f}" for ms in row.values()))
        bare_ms, peer_ms = row["bare"], row["bwrap"] - row["bare"]
        ratios = (ms / bare_ms for ms in row.values())
        print(f"{'  times bare':20}" + "".join(f"{ratio:9.2f}" for ratio in ratios))
        # What the sandbox adds: the figure that depends least on the machine.
        added = ((ms - bare_ms) / peer_ms for ms in row.values())
        print(f"{'  added, bwrap = 1':20}" + "".join(f"{ratio:9.2f}" for ratio in added))
    server.close()
    return table


def imports(folder, work, rounds):
    """Medians of a script with common imports: {contestant: ms}."""
    racing, servers = images.contestants(os.path.join(folder, "vestibule-mcp"), work)
    row = race(racing, rounds)
    for server in servers:
        server.close()
    print(f"\n{'python, common imports':26}{'ms':>9}{'times bare':>12}")
    for name, ms in row.items():
        print(f"{name:26}{ms:9.2f}{ms / row['bare']:12.2f}")
    return row


def growth(folder):
    """The server's resident memory in MB after 200 and after 2,000 runs."""
    server = Server(os.path.join(folder, "vestibule-mcp"))
    sizes = []
    for number in range(1, 2001):
        server.run("bash")
        if number in (200, 2000):
            sizes.append(server.rss_mb())
    server.close()
    return sizes


def starts(folder, rounds):
    """Median start times in ms: a C hello, the helper, and the server up to its first answer."""
    helper = os.path.join(folder, "vestibule-jail")
    program = os.path.join(folder, "vestibule-mcp")

    def first_answer():
        server = Server(program)
        server.close()
        return server.opened_ms

    return race(
        {
            "hello": lambda: spawn([os.path.join(folder, "hello")], b"hello"),
            "helper": lambda: spawn([helper, "--version"], b"vestibule-jail"),
            "server": first_answer,
        },
        rounds,
    )


def promise(what, measured, limit, unit):
    verdict = "kept" if measured <= limit else "BROKEN"
    print(f"{what:58}{measured:9.2f}  at most {limit:g} {unit}: {verdict}")


def promise_ms(what, measured, limit, slowness):
    """A promise in ms was made for a machine on which bare python takes REFERENCE_PYTHON_MS."""
    verdict = "kept" if measured <= limit else "BROKEN"
    if measured > limit >= measured / slowness:
        verdict = "kept at the reference speed"
    there = f"({measured / slowness:.2f} at the reference speed)"
    print(f"{what:58}{measured:9.2f}  at most {limit:g} ms {there}: {verdict}")


def main():
    folder, crates, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    work = os.path.join(os.environ["HOME"], "work")
    os.mkdir(work, 0o700)
    table = runs(folder, work, rounds)
    imported = imports(folder, work, rounds)
    start = starts(folder, rounds)
    early, late = growth(folder)
    python, bash = table["python"], table["bash"]
    size = os.path.getsize(os.path.join(folder, "vestibule-jail")) / 1e6
    print()
    promise("jail, python, times bare", python["jail"] / python["bare"], 1.4, "times")
    slowness = max(1.0, python["bare"] / REFERENCE_PYTHON_MS)
    print(f"this machine, now: {slowness:.2f} times slower than the reference")
    compiled = imported["image"] / imported["bare"]
    promise("server, python of an image, common imports", compiled, 1.2, "times")
    promise_ms("jail, bash, ms above bare", bash["jail"] - bash["bare"], 4, slowness)
    for language, row in table.items():
        above = row["server"] - row["bare"]
        promise_ms(f"server, {language}, ms above bare", above, 6, slowness)
    promise("server, start to the answer of initialize", start["server"], 10, "ms")
    promise("server, resident memory after 200 runs", early, 12, "MB")
    promise("server, growth from 200 to 2,000 runs", late - early, 0.5, "MB")
    promise("helper, size", size, 1.6, "MB")
    promise("helper, start, times a C hello", start["helper"] / start["hello"], 2.5, "times")
    promise("helper, library crates", crates, 55, "crates")


if __name__ == "__main__":
    try:
        main()
    except Wrong as error:
        sys.exit(f"bench: {error}")
