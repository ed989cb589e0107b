"""Calls at the same time: overlap, queue, cancellation, progress."""

import time

from common import Fail, key, text_of
from context import check


@check("concurrent")
def concurrent(c):
    """four calls at once each get their own answer, and really run side by side"""
    for era, s in c.both():
        t = time.monotonic()
        ids = [
            s.start_run(f"import time; time.sleep({2 - n * 0.3}); print('answer', {n})", id=300 + n)
            for n in range(4)
        ]
        for n, id in enumerate(ids):
            m = s.answer(id)
            c.expect(
                f"answer {n}\n" in text_of(m.get("result", {"content": []})) + "\n",
                f"answer {n} ({era})",
                m,
            )
        c.expect(
            time.monotonic() - t < 5,
            f"four runs of up to 2 s to overlap ({era})",
            f"{time.monotonic() - t:.1f} s",
        )
        c.expect(all(len(s.answers[key(i)]) == 1 for i in ids), "one answer each", s.answers)


@check("queue")
def queue(c):
    """with one slot: a second call waits, then is `Blocked:` after 5 s; a queued call can be cancelled"""
    s = c.server({"VESTIBULE_MAX_CONCURRENT": "1"})
    first = s.start_run("import time; time.sleep(7); print('slow')", timeout_seconds=20)
    time.sleep(0.5)
    t = time.monotonic()
    gone = s.start_run("print('cancelled')")
    waiting = s.start_run("print('waited')")
    time.sleep(0.5)
    s.notify("notifications/cancelled", {"requestId": gone})
    c.blocked(s.answer(waiting, 9).get("result", {"content": []}), [], "a call without a slot")
    c.expect(
        4 <= time.monotonic() - t <= 6.5,
        "an answer after about 5 s",
        f"{time.monotonic() - t:.1f} s",
    )
    c.expect(
        "slow" in text_of(s.answer(first).get("result", {"content": []})),
        "the first call to end well",
        s.answers[key(first)],
    )
    c.expect(
        key(gone) not in s.answers, "no answer to the cancelled call", s.answers.get(key(gone))
    )
    _, t = s.run("print('next')")
    c.expect("next" in t, "the slot to be free again", t)


@check("cancel")
def cancel(c):
    """a cancelled call is not answered, its processes are gone within 1 s, the next call works"""
    for era, s in c.both():
        id = s.start_busy()
        since = time.monotonic()
        s.notify("notifications/cancelled", {"requestId": id, "reason": "user"})
        while left := s.guests():
            if time.monotonic() - since > 1:
                raise Fail(
                    f"expected the run's processes gone 1 s after the cancellation, got {left} ({era})"
                )
            time.sleep(0.03)
        _, t = s.run("print('after', 'cancel')")
        c.expect("after cancel" in t, f"the next call to work ({era})", t)
        time.sleep(1)
        c.expect(
            key(id) not in s.answers,
            f"no answer to the cancelled call ({era})",
            s.answers.get(key(id)),
        )
        s.notify("notifications/cancelled", {"requestId": id})
        s.lives("a second cancellation")


@check("progress")
def progress(c):
    """progress every 2 s: own token, increasing, a message without guest text, none after the answer"""
    for (era, s), token in zip(c.both(), ("p1", 7)):
        silent = s.start_run("import time; time.sleep(4)")
        id = s.start_run(
            "import time; print('guestword', flush=True); time.sleep(5)",
            meta={"progressToken": token},
        )
        s.answer(id)
        done = s.answers[key(id)][0][0]
        time.sleep(2.5)
        notes = [(t, n["params"]) for t, n in s.notes if n["method"] == "notifications/progress"]
        c.expect(len(notes) == len(s.notes), "progress notifications alone", s.notes)
        c.need(len(notes) >= 2, f"at least 2 notifications in a run of 5 s ({era})", notes)
        c.expect(
            all(
                type(p.get("progressToken")) is type(token) and p["progressToken"] == token
                for _, p in notes
            ),
            f"the token {token!r} and no other ({era})",
            notes,
        )
        values = [p.get("progress") for _, p in notes]
        c.expect(
            all(a < b for a, b in zip(values, values[1:])), f"increasing values ({era})", values
        )
        c.expect(
            all(t <= done for t, _ in notes),
            f"none after the answer ({era})",
            [round(t - done, 2) for t, _ in notes],
        )
        c.expect(
            all(p.get("message") and "guestword" not in p["message"] for _, p in notes),
            f"messages without guest text ({era})",
            notes,
        )
        s.answer(silent)
