"""`state`: blocks and scores as they are stored, one part after another, or those of one visitor."""

from __future__ import annotations

from bisect import bisect_right
from typing import Annotated

import msgspec
from msgspec import Meta

from hedgerow.challenge.prices import gateway_key
from hedgerow.core.state import prefix_key
from hedgerow.web.dashboard.page import Context, Page
from hedgerow.web.dashboard.resource_types import StateRow, StateRows
from hedgerow.web.ledger_access import count_visits
from hedgerow.web.siblings import has_siblings, read_all

_MAX_ROWS = 1000
_PATIENCE = 0.05
"""Seconds for which a request waits for a copy of the state."""


class StateParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[str, Meta(max_length=1000, description="The key after which to continue: that in `next`.")] = ""
    size: Annotated[int, Meta(ge=1, le=_MAX_ROWS, description="Keys in the answer.")] = 500
    visitor: Annotated[str, Meta(max_length=1000, description="Only this key, and that of all at its address.")] = ""


def query(context: Context, parameters: StateParameters) -> StateRows:
    """
    Return rows of a copy that may be some seconds old.

    An empty part that is not the last one says that the copy is still being made: the same has to be asked again.
    """
    if parameters.visitor:
        return StateRows(_about(context, parameters.visitor), None)
    known = context.stored_state(_PATIENCE)
    if known is None:
        return StateRows([], parameters.after)
    start = bisect_right(known.keys, parameters.after) if parameters.after else 0
    end = start + parameters.size
    rows = [StateRow(key, known.blocks.get(key), known.scores.get(key)) for key in known.keys[start:end]]
    return StateRows(rows, rows[-1].key if end < len(known.keys) else None)


def _about(context: Context, visitor: str) -> list[StateRow]:
    """Return what is stored now about one visitor, all at its address, and the people there."""
    site, keys = context.site, (visitor, prefix_key(visitor), gateway_key(visitor))
    blocks, scores = read_all(site, context.now) if has_siblings(site) else site.stores.state.look_up(keys, context.now)
    block_of, score_of = {block.key: block for block in blocks}, dict(scores)
    return [
        StateRow(key, block_of.get(key), score_of.get(key), count_visits(context.settings, key))
        for key in keys
        if key in block_of or key in score_of
    ]


RESOURCE = Page(
    name="state",
    title="State",
    summary="Blocks and scores as they are stored, in the order of their keys, one part after another.",
    query=query,
    result=StateRows,
    parameters=StateParameters,
    in_navigation=False,
)
