"""*Visitor*: what is known about one visitor, why it is suspected, and what an operator can do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from hedgerow.challenge.prices import PriceLevel
from hedgerow.core.address import parse_address
from hedgerow.core.decision import Block, Decision, Evidence
from hedgerow.core.state import ACCOUNT, CLEARANCE, prefix_key
from hedgerow.core.visit import READ_BY, Visit
from hedgerow.lists.model import Listing, clean_text, parse_subject
from hedgerow.lists.times import parse_duration
from hedgerow.request.path_rules import GROUP
from hedgerow.web.dashboard.page import Action, Context, Done, Duration, Page, Problem
from hedgerow.web.dashboard.pages.lists import store_of
from hedgerow.web.dashboard.path_tree import (
    FeatureValue,
    Intervals,
    TreeNode,
    features_of,
    intervals_of,
    tree_of,
)
from hedgerow.web.dashboard.visitor_search import find_visitor, visits_of
from hedgerow.web.siblings import open_orders
from hedgerow.web.visitor_rows import ReasonCount, VisitorRow, describe_sign, row_of

_MAX_VISITS = 300
_MAX_REASONS = 60
_MAX_ADDRESSES = 5
_MAX_SIGNS = 20
_DAY = 86_400.0

Name = Annotated[str, Meta(min_length=1, max_length=500, description="An address, account:NAME, a key or a reference.")]
ReasonText = Annotated[str, Meta(max_length=500)]


class VisitorParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    visitor: Name


class TimedReason(msgspec.Struct, frozen=True):
    """
    Why visits were not simply let in: what was found and done, in words.

    The same of several visits in a row is one: *times* visits from *since* to *at*, the last one to *target*.
    """

    at: float
    since: float
    times: int
    action: str
    observed: bool
    code: str
    text: str
    target: str


class Clearance(msgspec.Struct, frozen=True):
    """
    What an address has of clearances: how many are used side by side, the pages that were read with them within a day,
    and what the next one costs there.
    """

    address: str
    held: int
    pages: int
    next: PriceLevel


class Preview(msgspec.Struct, frozen=True):
    """What a change would do, in a sentence."""

    forgive: str
    ban: str
    allow: str


class VisitorDetails(msgspec.Struct, frozen=True):
    """
    One visitor, from the state and its last 300 visits in the ledger.

    *agents* and *addresses* have the number of visits with each. *signs* say what was unusual about how many of them.
    """

    visitor: str
    row: VisitorRow
    visits: int
    first: float | None
    last: float | None
    reasons: list[TimedReason]
    tree: list[TreeNode]
    depth: int
    width: int
    traps: int
    foreign: int
    intervals: Intervals | None
    features: list[FeatureValue]
    agents: dict[str, int]
    addresses: dict[str, int]
    clearances: list[Clearance]
    fingerprints: dict[str, int]
    signs: list[ReasonCount]
    listed: list[str]
    preview: Preview


class ForgiveVisitor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    visitor: Name
    reason: ReasonText = ""


class BanVisitor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    visitor: Name
    reason: ReasonText = ""
    duration: Duration = "1d"


class AllowVisitor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    visitor: Name
    reason: ReasonText = ""
    duration: Duration = "7d"


def query(context: Context, parameters: VisitorParameters) -> VisitorDetails:
    key = find_visitor(context, parameters.visitor)
    entries = visits_of(context, key, _MAX_VISITS)
    visits = [visit for visit, _ in entries]
    tree = tree_of(entries)
    paths = context.site.watch.watch.paths if context.site.watch is not None else None
    row = _row(context, key)
    return VisitorDetails(
        visitor=key,
        row=row,
        visits=len(visits),
        first=visits[0].at if visits else None,
        last=visits[-1].at if visits else None,
        reasons=_reasons(entries),
        tree=tree,
        depth=max((node.depth for node in tree), default=0),
        width=max((node.width for node in tree), default=0),
        traps=sum(node.trap for node in tree),
        foreign=sum(node.foreign for node in tree),
        intervals=intervals_of(tree),
        features=features_of(entries, paths.bundle if paths is not None else None),
        agents=dict(Counter(visit.user_agent for visit in visits).most_common(10)),
        addresses=dict(Counter(visit.address for visit in visits).most_common(20)),
        clearances=_clearances(context, key, visits),
        fingerprints=dict(Counter(visit.fingerprint for visit in visits if visit.fingerprint).most_common(10)),
        signs=_signs(visits),
        listed=_listed(context, key, visits),
        preview=_preview(context, key, row, entries),
    )


def _row(context: Context, key: str) -> VisitorRow:
    known = context.snapshot
    block = known.blocks.get(key) or known.blocks.get(prefix_key(key))
    return row_of(
        context.settings, key, known.scores.get(key), block, context.now, observed=bool(context.settings.observe)
    )


def _clearances(context: Context, key: str, visits: Sequence[Visit]) -> list[Clearance]:
    known, now = context.snapshot, context.now
    addresses = dict.fromkeys([key, *(visit.prefix for visit in reversed(visits))])
    return [
        Clearance(one, known.held(one, now), known.pages(one, now), known.price(one, now))
        for one in addresses
        if parse_address(one.partition("/")[0])
    ][:_MAX_ADDRESSES]


def _signs(visits: Sequence[Visit]) -> list[ReasonCount]:
    # What follows the start of such a code is different for each account.
    codes = (READ_BY if sign.startswith(READ_BY) else sign for visit in visits for sign in visit.anomalies)
    return [ReasonCount(code, number, describe_sign(code)) for code, number in Counter(codes).most_common(_MAX_SIGNS)]


def _reasons(entries: Sequence[tuple[Visit, Decision]]) -> list[TimedReason]:
    """Return the reasons, the latest first."""
    last: dict[tuple[str, bool, str, str], int] = {}
    found: list[TimedReason] = []
    for visit, decision in entries:
        now: dict[tuple[str, bool, str, str], int] = {}
        for one in decision.evidence:
            if one.detector == GROUP:
                # A rule for the path is no reason against anybody.
                continue
            key = (decision.action, bool(decision.observed), one.code, one.text)
            at = last.get(key)
            since, times = (found[at].since, found[at].times + 1) if at is not None else (visit.at, 1)
            reason = TimedReason(visit.at, since, times, *key, visit.target)
            if at is None:
                at = len(found)
                found.append(reason)
            else:
                found[at] = reason
            now[key] = at
        last = now
    return found[: -_MAX_REASONS - 1 : -1]


def _subject(key: str, visits: Sequence[Visit]) -> str:
    """Return what can stand on a list for a visitor: its account, or its address, or that of its last visit."""
    if key.startswith(ACCOUNT):
        return key
    if not key.startswith(CLEARANCE):
        return key if parse_address(key.partition("/")[0]) else ""
    return visits[-1].address if visits and parse_address(visits[-1].address) else ""


def _listed(context: Context, key: str, visits: Sequence[Visit]) -> list[str]:
    subject = _subject(key, visits)
    if context.site.follower is None or not subject:
        return []
    found, _ = store_of(context).search(
        subject.partition("/")[0], context.now, sort="list", descending=False, limit=20, offset=0
    )
    return [f"{one.list}: {one.subject}{f' ({one.reason})' if one.reason else ''}" for one in found]


def _preview(context: Context, key: str, row: VisitorRow, entries: Sequence[tuple[Visit, Decision]]) -> Preview:
    day = [decision for visit, decision in entries if visit.at > context.now - _DAY]
    stopped = sum(decision.action != "pass" for decision in day)
    passed = len(day) - stopped
    held = []
    if row.until is not None:
        held.append("the block that is in force")
    if row.suspicion or row.reasons:
        held.append(f"the score of {row.suspicion:g}")
    forgive = f"Removes {' and '.join(held)}. The next visit is judged anew." if held else "Changes nothing."
    subject = _subject(key, [visit for visit, _ in entries])
    shared = " Everybody at this address is let in." if subject and not subject.startswith(ACCOUNT) else ""
    return Preview(
        forgive=forgive,
        ban=f"Of its {len(day):,} visits of the last day that are known here, {passed:,} more would have been refused.",
        allow=(
            f"Puts {subject} on the white list: {stopped:,} visits of the last day would have passed.{shared}"
            if subject
            else "Not possible: no address of this visitor is known."
        ),
    )


def forgive(context: Context, request: ForgiveVisitor) -> Done:
    key = find_visitor(context, request.visitor)
    forgive_key(context, key)
    return Done(f"{key} is forgiven.{_because(request.reason)}", key, _page_of(key))


def forgive_key(context: Context, key: str) -> None:
    """Remove blocks and score of a visitor. Raises `Problem` if there are none, or if Redis is away."""
    with open_orders(context.site) as order:
        forgiven = [order(one, None) for one in (key, prefix_key(key))]
    if None in forgiven:
        raise Problem(503, "Redis does not answer. The visitor will be forgiven as soon as it does.")
    if not any(forgiven):
        raise Problem(404, f"{key} is neither suspected nor blocked.")


def ban(context: Context, request: BanVisitor) -> Done:
    key, now = find_visitor(context, request.visitor), context.now
    until = now + parse_duration(request.duration)
    evidence = Evidence("administrator", "administrator", 1.0, request.reason or f"By {context.user.name}.")
    prefix = key if parse_address(key.partition("/")[0]) else ""
    with open_orders(context.site) as order:
        order(key, Block(key, prefix, now, until, "refuse", evidence))
    return Done(f"{key} is blocked for {request.duration}.{_because(request.reason)}", key, _page_of(key))


def allow(context: Context, request: AllowVisitor) -> Done:
    key = find_visitor(context, request.visitor)
    subject = allow_key(context, key, request.duration, request.reason)
    return Done(f"{subject} is on the white list for {request.duration}.{_because(request.reason)}", key, _page_of(key))


def allow_key(context: Context, key: str, duration: str, reason: str) -> str:
    """Put a visitor on the white list, and return the subject that stands there."""
    subject = _subject(key, [visit for visit, _ in visits_of(context, key, 1)])
    if not subject:
        raise Problem(409, f"No address of {key} is known that could be put on the white list.")
    until = context.now + parse_duration(duration)
    text = parse_subject(subject).text
    author = clean_text(context.user.name)
    store_of(context).put([Listing("white", text, clean_text(reason), author, context.now, until)])
    if context.site.follower is not None:
        context.site.follower.refresh()
    return text


def _because(reason: str) -> str:
    return f" Reason: {reason}" if reason else ""


def _page_of(key: str) -> str:
    return f"/dashboard/visitor?{urlencode({'visitor': key})}"


PAGE = Page(
    name="visitor",
    title="Visitor",
    summary="One visitor: reasons, path, intervals, features, headers and addresses.",
    query=query,
    result=VisitorDetails,
    parameters=VisitorParameters,
    actions=(
        Action("forgive", "Remove the block and the score of a visitor.", ForgiveVisitor, forgive),
        Action("ban", "Block a visitor for some time.", BanVisitor, ban),
        Action("allow", "Put a visitor on the white list for some time.", AllowVisitor, allow),
    ),
    in_navigation=False,
)
