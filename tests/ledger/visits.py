"""What another process does with a state that it shares. Imports little: it is started eight times."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from hedgerow.core.decision import PASS, Block, Evidence, ScoreUpdate
from hedgerow.core.ledger import Entry
from hedgerow.core.state import StateQuery
from hedgerow.core.visit import Visit

START = 1_800_000_000.0
HOME, ANN = "192.0.2.1", "account:ann"
EACH = 200
_EVIDENCE = Evidence("density", "density-visitor", 1.0, "More than 5 pages in 3 seconds.")


def visit(opened: tuple[Callable[..., Any], tuple[Any, ...]], number: int) -> list[tuple[int, ...]]:
    """The counts of many visits; and a change and a block besides."""
    make, arguments = opened
    with closing(make(*arguments)) as state:
        question = StateQuery(START + 1.0, "page", ANN if number % 2 else HOME, HOME, "", count=True, site_rate=True)
        found = [state.record_visit(question).counts for _ in range(EACH)]
        state.update_score(ScoreUpdate(HOME, START, 1, 1e9, weight=1.0, codes=("a",), suspicious=True))
        state.commit(Block(f"account:{number}", HOME, START, START + 60, "refuse", _EVIDENCE))
        return found


def open_redis(url: str, windows: Any, prefix: str, **options: Any) -> Any:
    from hedgerow.state.redis.connection import parse_redis_address
    from hedgerow.state.redis.state import RedisState

    # A machine that is busy with other tests must not be taken for a Redis that is away.
    return RedisState(parse_redis_address(url), windows, prefix=prefix, patience=20.0, **options)


def append(opened: tuple[Callable[..., Any], tuple[Any, ...]], number: int) -> int:
    """Write many entries to a ledger, and say how many it has lost."""
    make, arguments = opened
    ledger = make(*arguments)
    for n in range(EACH):
        ledger.append(Entry(Visit(START + n, HOME, HOME, HOME, "GET", f"/{number}/{n}"), PASS, 200))
    ledger.close()
    return int(ledger.lost)
