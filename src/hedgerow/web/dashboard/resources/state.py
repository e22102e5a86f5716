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
from hedgerow.web.siblings import has_siblings

_MAX_ROWS = 1000


class StateParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[str, Meta(max_length=1000, description="The key after which to continue: that in `next`.")] = ""
    size: Annotated[int, Meta(ge=1, le=_MAX_ROWS, description="Keys in the answer.")] = 500
    visitor: Annotated[str, Meta(max_length=1000, description="Only this key, and that of all at its address.")] = ""


def query(context: Context, parameters: StateParameters) -> StateRows:
    """Return rows of a copy that may be some seconds old."""
    if parameters.visitor:
        return StateRows(_about(context, parameters.visitor), None)
    known = context.stored_state
    start = bisect_right(known.keys, parameters.after) if parameters.after else 0
    end = start + parameters.size
    rows = [StateRow(key, known.blocks.get(key), known.scores.get(key)) for key in known.keys[start:end]]
    return StateRows(rows, rows[-1].key if end < len(known.keys) else None)


def _about(context: Context, visitor: str) -> list[StateRow]:
    """
    Return what is stored about one visitor, all at its address, and the people there.

    Blocks, and with them the switch "under attack", are as they are now.
    """
    known, site = context.stored_state, context.site
    blocks = {block.key: block for block in site.stores.state.blocks(context.now)}
    if has_siblings(site):
        blocks = {**known.blocks, **blocks}
    return [
        StateRow(key, blocks.get(key), known.scores.get(key), count_visits(context.settings, key))
        for key in (visitor, prefix_key(visitor), gateway_key(visitor))
        if key in blocks or key in known.scores
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
