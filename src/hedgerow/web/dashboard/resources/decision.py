"""`decision`: a visit that is stored in the ledger, by its reference, or the last of a visitor that did not pass."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hedgerow.web.dashboard.page import Context, Page, Problem
from hedgerow.web.dashboard.resource_types import FoundDecision
from hedgerow.web.dashboard.visitor_search import known_keys
from hedgerow.web.ledger_access import StoredDecision, keys_stored_as, stored_key


class DecisionParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reference: Annotated[str, Meta(max_length=20, description="Such as 1A2B-3C4D, from a refusal page.")] = ""
    visitor: Annotated[str, Meta(max_length=1000, description="Without a reference: the key of a visitor.")] = ""


def query(context: Context, parameters: DecisionParameters) -> FoundDecision:
    if not parameters.reference and not parameters.visitor:
        raise Problem(422, "Name a reference or a visitor.")
    if not context.has_ledger:
        raise Problem(404, "The ledger is off, so no decision can be found.")
    settings, columns = context.settings, StoredDecision.__struct_fields__
    with context.ledger() as ledger:
        if parameters.reference:
            row = ledger.find(parameters.reference.strip().upper(), columns)
        else:
            row = ledger.find_stopped(stored_key(settings, parameters.visitor), columns)
    if row is None:
        raise Problem(404, "There is no such decision in the ledger.")
    decision = StoredDecision.of_row(row)
    return FoundDecision(decision, keys_stored_as(settings, decision.visitor, lambda: known_keys(context)))


RESOURCE = Page(
    name="decision",
    title="Decision",
    summary="The decision with a reference, or the last one against a visitor, with all of its evidence.",
    query=query,
    result=FoundDecision,
    parameters=DecisionParameters,
    in_navigation=False,
)
