"""*Complaint*: from the reference that a person was shown to its decision, and one click that lets the person in."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec import Meta

from hedgerow.core.decision import Evidence
from hedgerow.core.state import prefix_key
from hedgerow.request.path_rules import GROUP
from hedgerow.web.dashboard.page import Action, Context, Done, Duration, Page, Problem
from hedgerow.web.dashboard.pages.visitor import allow_key, forgive_key
from hedgerow.web.dashboard.visitor_search import find_decision, is_reference, known_key
from hedgerow.web.visitor_rows import describe_reason, what_to_loosen

_COLUMNS = (
    "at",
    "visitor",
    "method",
    "host",
    "target",
    "user_agent",
    "action",
    "observed",
    "status",
    "code",
    "evidence",
)
_CHANGE = "complaint.let-in"
_MAX_COUNTED = 10_000
_CODE = "code "
_SUSPECTED = re.compile(r"Suspected for ([\w-]+)")

_REFERENCE = "[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}"
_DESCRIPTION = "Such as 1A2B-3C4D, from a refusal page."

Reference = Annotated[
    str, Meta(max_length=20, description=_DESCRIPTION, extra_json_schema={"pattern": f"^{_REFERENCE}$"})
]


class ComplaintParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Without a reference, the page asks for one."""

    reference: Annotated[
        str, Meta(max_length=20, description=_DESCRIPTION, extra_json_schema={"pattern": f"^({_REFERENCE})?$"})
    ] = ""


class LetIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reference: Reference
    duration: Duration = "1d"


class FoundDecision(msgspec.Struct, frozen=True):
    """The decision that a person complains about. *sentences* say why it was made."""

    reference: str
    at: float
    visitor: str
    request: str
    user_agent: str
    action: str
    observed: bool
    status: int
    code: str
    sentences: list[str]
    is_blocked: bool


class ComplaintCount(msgspec.Struct, frozen=True):
    """How many people were let in after a decision for one reason, and the setting to loosen if these are many."""

    code: str
    count: int
    text: str
    setting: str


class Complaints(msgspec.Struct, frozen=True):
    found: FoundDecision | None
    counts: list[ComplaintCount]


def query(context: Context, parameters: ComplaintParameters) -> Complaints:
    found = _find(context, parameters.reference.strip()) if parameters.reference else None
    return Complaints(found, _counts(context))


def _find(context: Context, reference: str) -> FoundDecision:
    if not is_reference(reference):
        raise Problem(400, "A reference has eight letters and digits, such as 1A2B-3C4D.")
    at, stored, method, host, target, agent, action, observed, status, code, evidence = find_decision(
        context, reference, _COLUMNS
    )
    sentences: list[str] = []
    with suppress(msgspec.MsgspecError):
        decoded = msgspec.json.decode(evidence, type=list[Evidence])
        sentences = [one.text for one in decoded if one.detector != GROUP]
    visitor = known_key(context, stored)
    blocked = not context.snapshot.blocks.keys().isdisjoint((visitor, prefix_key(visitor)))
    return FoundDecision(
        reference.upper(), at, visitor, f"{method} {host}{target}", agent, action, bool(observed), status, code,
        sentences, blocked,
    )  # fmt: skip


def _counts(context: Context) -> list[ComplaintCount]:
    entries, _ = context.audit.read(text=_CHANGE, limit=_MAX_COUNTED)
    codes = Counter(
        one.details.rpartition(_CODE)[2].rstrip(".")
        for one in entries
        if one.change == _CHANGE and _CODE in one.details
    )
    return [
        ComplaintCount(code, count, describe_reason(code).text, what_to_loosen(code))
        for code, count in codes.most_common()
    ]


def let_in(context: Context, request: LetIn) -> Done:
    """Forgive the visitor, and put it on the white list for some time, so that it is not stopped again at once."""
    found = _find(context, request.reference.strip())
    with suppress(Problem):
        # It may be neither blocked nor suspected any more.
        forgive_key(context, found.visitor)
    reason = f"Complaint {found.reference}"
    done = f"{found.visitor} is forgiven"
    try:
        subject = allow_key(context, found.visitor, request.duration, reason)
        done += f", and {subject} is let in for {request.duration}"
    except Problem:
        done += ", but no address is known that could be put on the white list"
    return Done(f"{done}. It was stopped for {_CODE}{_cause(found)}.", found.visitor)


def _cause(found: FoundDecision) -> str:
    """Return the code of the decision, or that which made the visitor a suspect most of all."""
    score = _SUSPECTED.search(" ".join(found.sentences)) if found.code == "suspect" else None
    return score[1] if score else found.code


PAGE = Page(
    name="complaint",
    title="Complaint",
    summary="The decision behind a reference, and the reasons that people complained about.",
    query=query,
    result=Complaints,
    parameters=ComplaintParameters,
    actions=(Action("let-in", "Let in a person who was stopped by mistake.", LetIn, let_in),),
)
