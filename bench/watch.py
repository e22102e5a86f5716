"""The watch: visits a second on one core, with marked links, sharing and models; and bytes for each pending session."""

from __future__ import annotations

import functools
import gc
import itertools
import random
import time
import tracemalloc

from bench.samples import BROWSER
from hedgerow.core.decision import ISSUED_TO_ANOTHER, PASS, Decision, Evidence
from hedgerow.core.gate import run_now
from hedgerow.core.ledger import NoLedger
from hedgerow.core.visit import Marker, Visit
from hedgerow.markers.token import Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.settings import read_settings
from hedgerow.watch.link_sharing import LinkSharing
from hedgerow.watch.session_store import PendingSession
from hedgerow.watch.sessions.path import LONG, PathSession
from hedgerow.watch.sessions.window import Access, SessionWindow
from hedgerow.watch.watch import Watch, WatchThread
from hedgerow.web.gate import build_gate
from hedgerow.web.watch import build_watch

GOAL = 5_000
GOAL_BYTES = 2_048
VISITS = 60_000
HOST = b"example.org"
SHARES = (0.0, 0.0023, 0.05, 0.2, 0.9)
"""None; people's (PathMarker's); a lot; nearly a crawler's; those of the workers of one crawler, which are found."""


def visits(visitors: int, shared: float) -> list:
    """Visits with their decisions, through a real gate; a part of them by links of another visitor."""
    seals = TokenCodecs([Key(1, bytes(range(64)), 0.0)])
    # These visitors have no clearance. The watch is to see all of their pages, not the first twenty.
    uncontained = read_settings("[containment]\nenabled = false\n", environment={})
    gate = build_gate(uncontained, tokens=seals, ledger=NoLedger())
    seal, chance, found = seals.of(HOST.decode()), random.Random(1), []
    headers = [pair for pair in BROWSER if pair[0] != b"host"] + [(b"host", HOST)]
    names = [f"10.{n >> 8 & 255}.{n & 255}.1" for n in range(visitors)]
    for n in range(VISITS):
        name = chance.choice(names)
        issuer = chance.choice(names) if chance.random() < shared else name
        parent = page_digest(f"/page/{chance.randrange(200)}")
        token = seal.seal("page", visitor_digest(issuer), parent, b"/page/%d" % chance.randrange(200)).decode()
        visit = gate.identifier.visit(1.8e9 + n * 0.01, name, "GET", "/~" + token, headers)
        found.append((visit, run_now(gate.decide(visit))))
    return found


def watched(found: list) -> tuple[float, Watch]:
    settings = read_settings("", environment={})
    gate = build_gate(settings, tokens=TokenCodecs([Key(1, bytes(64), 0.0)]), ledger=NoLedger())
    watch = build_watch(settings, gate.engine.policy, gate.state.update_score)
    began = time.process_time()
    for visit, decision in found:
        watch.see(visit, decision)
    return len(found) / (time.process_time() - began), watch


def pending_bytes(sessions: int = 2_000) -> float:
    """What a visitor with a session of 60 steps and a full window costs the watch, with its name."""
    gc.collect()
    tracemalloc.start()
    kept: dict[str, PendingSession] = {}
    for n in range(sessions):
        name = f"10.{n >> 8}.{n & 255}.1"
        session = kept[name] = PendingSession(PathSession(), SessionWindow())
        for step in range(LONG):
            page, parent = page_digest(f"/{n}/{step}"), page_digest(f"/{n}/{step - 1}")
            session.path.add(1.8e9 + step, page, parent)
            session.window.add(Access(1.8e9 + step, name, b"four", page, parent, "own", b"cookie", "good", "browser"))
    return _taken() / len(kept)


def _taken() -> int:
    """Bytes taken since tracing began, less what lies in caches: these have bounds, however many visitors there are."""
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper):
            one.cache_clear()
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken


def whole_bytes(share: float, visitors: int = 1_000) -> float:
    """
    All that the watch has of a visitor with a session of 60 steps: path, window, and what is known of its links, of
    which a *share* are others'. There is room for as many links as for sessions, as by default.
    """
    settings = read_settings("", environment={})
    gate = build_gate(settings, tokens=TokenCodecs([Key(1, bytes(64), 0.0)]), ledger=NoLedger())
    # Standings are the state's, not the watch's.
    watch = build_watch(settings, gate.engine.policy, lambda _: None)
    watch.sharing = LinkSharing(watch.sharing.limits, max_links=visitors)
    # What is there once, whoever comes, is no visitor's.
    for step in range(LONG):
        watch.see(*_visit("192.0.2.1", "192.0.2.1", step))
    chance = random.Random(5)
    gc.collect()
    tracemalloc.start()
    for n in range(visitors):
        for step in range(LONG):
            issuer = chance.randrange(visitors) if chance.random() < share else n
            watch.see(*_visit(_name(n), _name(issuer), step))
    return _taken() / visitors


def _name(n: int) -> str:
    return f"10.{n >> 8}.{n & 255}.1"


def _visit(name: str, issuer: str, step: int) -> tuple[Visit, Decision]:
    """A visit by a link that was minted for *issuer*."""
    chance = random.Random(f"{name} {step}")
    issued_to = visitor_digest(issuer)
    marker = Marker("page", issued_to, page_digest(f"/{chance.randrange(step + 1)}"), f"/{step}")
    visit = Visit(1.8e9 + step * 90.0 + chance.expovariate(1 / 40), name, name, name, "GET", f"/{step}", marker=marker)
    if issuer == name:
        return visit, PASS
    return visit, Decision("pass", (Evidence("integrity", ISSUED_TO_ANOTHER, 1.0, "", details=issued_to.hex()),))


def lateness(found: list, seconds: float = 4.0) -> tuple[float, float, float, int]:
    """
    How late a thread comes that wakes a thousand times a second and leaves five visits each time: in the median without
    a watch beside it and with one, what is added to the 99th percentile, and how many visits were left out.
    """
    settings = read_settings("", environment={})
    gate = build_gate(settings, tokens=TokenCodecs([Key(1, bytes(64), 0.0)]), ledger=NoLedger())
    results = []
    for beside in (None, WatchThread(build_watch(settings, gate.engine.policy, gate.state.update_score))):
        late, visits = [], itertools.cycle(found)
        due = time.perf_counter()
        end = due + seconds
        while due < end:
            due += 0.001
            if (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
            else:
                # One stall is not to count for all that come after it.
                due = time.perf_counter()
            late.append(time.perf_counter() - due)
            if beside is not None:
                for _ in range(5):
                    beside.add(*next(visits))
        late.sort()
        results.append((late[len(late) // 2], late[len(late) * 99 // 100]))
        if beside is not None:
            beside.close()
            return results[0][0], results[1][0], results[1][1] - results[0][1], beside.left_out
    raise AssertionError


def main() -> None:
    slowest = float("inf")
    for visitors, shared in itertools.product((50, 1_000), (0.0023, 0.9)):
        rate, watch = watched(visits(visitors, shared))
        slowest = min(slowest, rate)
        print(
            f"{visitors:5,} visitors, {shared:6.2%} of the links shared: {rate:9,.0f} visits/s, "
            f"{len(watch.campaigns())} campaign(s), judged {dict(watch.found)}"
        )
    print(f"goal: at least {GOAL:,} visits/s on one core; the slowest is {slowest:,.0f}")
    before, after, worst, left_out = lateness(visits(1_000, 0.0023))
    print(
        f"a request while 5,000 visits/s are watched comes {(after - before) * 1e6:,.0f} µs later in the median, "
        f"{worst * 1e6:,.0f} µs at the 99th percentile; {left_out} visits left out"
    )
    each = pending_bytes()
    print(
        f"a session of 60 steps and a window of 40: {each:,.0f} bytes with its name; all that the watch has of such a "
        "visitor, by the share of links that are others':"
    )
    for share in SHARES:
        print(f"{share:8.2%}: {whole_bytes(share):,.0f} bytes")
    print(f"goal: at most {GOAL_BYTES:,} bytes for each visitor with a pending session")
