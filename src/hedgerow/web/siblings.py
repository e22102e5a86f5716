"""
Several processes of one application, each with a state of its own in memory and all with one journal.

An operator asks one of them. What it shows and changes has to be about all. So it reads the journal besides its own
state, and gives orders by the journal, as commands do. Workers and gates with Redis share their state and need nothing
of this.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hedgerow.core.decision import Block, VisitorScore
from hedgerow.state.sqlite.journal import connect, order, read
from hedgerow.web.paths import state_directory, state_path
from hedgerow.web.run_file import find_running

if TYPE_CHECKING:
    from hedgerow.web.app import Site

Order = Callable[[str, Block | None], bool | None]
"""Blocks a key, or forgives it without a block: false if nothing was known, None if the state cannot be asked."""


def has_siblings(site: Site) -> bool:
    """Return whether other processes use the journal of this site."""
    stores = site.stores
    if stores.journal is None or stores.worker_metrics is not None:
        return False
    directory = state_directory(site.app.settings).absolute()
    return any(
        one.process != os.getpid() and directory.is_relative_to(Path(one.directory)) for one in find_running()[0]
    )


@contextmanager
def open_orders(site: Site) -> Iterator[Order]:
    """Open what blocks and forgives keys in this process at once, and in others within a second."""
    with ExitStack() as stack:
        journal = stack.enter_context(closing(connect(state_path(site.app.settings)))) if has_siblings(site) else None

        def carry_out(key: str, block: Block | None) -> bool | None:
            known: bool | None = True
            if block is None:
                known = site.stores.state.forgive(key)
            else:
                site.stores.state.commit(block)
            return known if journal is None else order(journal, key, block) or known

        yield carry_out


def read_all(site: Site, at: float) -> tuple[Sequence[Block], Sequence[tuple[str, VisitorScore]]]:
    """Return the blocks in force and the scores of all processes."""
    blocks, scores = site.stores.state.blocks(at), site.stores.state.scores()
    if not has_siblings(site):
        return blocks, scores
    with closing(connect(state_path(site.app.settings))) as journal:
        other_blocks, other_scores = read(journal, at)
    merged = {block.key: block for block in (*other_blocks, *blocks)}
    return list(merged.values()), list((dict(other_scores) | dict(scores)).items())
