"""What operators see about suspected and blocked visitors, on the command line and in the dashboard."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from hedgerow.challenge.interfaces import TOO_MANY
from hedgerow.challenge.prices import GATEWAY_FROM, HALF_LIFE, gateway_of, is_price_key
from hedgerow.core.attack import visitors_of
from hedgerow.core.decision import JUDGED_PERSON, Block, VisitorScore
from hedgerow.core.visit import (
    ANSWERED,
    ARRIVAL,
    BY_PROGRAM,
    BY_SCRIPT,
    ELSEWHERE,
    FORM,
    INTO_WINDOW,
    NO_NAVIGATION,
    READ_BY,
    UNMARKED_SITE,
    WRONG_COOKIE,
)
from hedgerow.detectors.registry import registry
from hedgerow.policy.score import explained, score_at
from hedgerow.settings import Settings

T = TypeVar("T")

_FIELD = re.compile(r"\{(\w+)[^}]*\}")
_WORDS = {
    "where": "a page", "page": "a page", "target": "one address", "before": "another", "count": "the allowed",
    "what": "requests", "limit": "the allowed", "seconds": "a few", "name": "a known bot", "named": "this network",
    "family": "the named browser",
}  # fmt: skip
"""What stands in a sentence in place of what differs from visit to visit."""
_LAST_FIELD = re.compile(r": \{[^}]*\}\.$")
"""What a sentence of evidence says about one visit, such as the name of a page."""


_OTHER_CODES = {
    JUDGED_PERSON: ("Judged a person by its path.", ""),
    "suspect": ("The score is above the limit for suspects.", "[policy]: suspect_at"),
    TOO_MANY: ("Was shown many challenges and solved none.", "[policy]: challenges"),
    "campaign": ("Uses links of other visitors as a campaign does.", '[campaigns]: response = "record"'),
    "path-hurried": ("Opens page after page faster than anybody reads.", '[watch]: paths = "record"'),
    "path-without-links": ("Hardly uses links, above k2 pages a day.", '[watch]: paths = "record"'),
    "path-doubtful": ("The order of its pages is near that of crawlers.", '[watch]: paths = "record"'),
    "path-": ("The order of its pages is that of crawlers.", '[watch]: paths = "record"'),
    "window-doubtful": ("Its last visits are near those of crawlers.", '[watch]: windows = "record"'),
    "window-": ("Its last visits are those of crawlers.", '[watch]: windows = "record"'),
    "list-black": ("Is on the black list.", "the entry on the page Lists"),
    "administrator": ("Blocked by an operator.", "the block, on the page of the visitor"),
    "store-away": ("The state cannot be asked.", "[state]: on_failure"),
}
"""Codes that are not of detectors, or that begin like this: what they mean, and what to loosen."""
_GENERAL = {
    "k2": "More than the allowed pages today with a clearance.",
    "k2-person": "More than the allowed pages today, in the way of a person.",
    "unwanted-bot": "A bot that this site does not want.",
}
_SIGNS = {
    BY_SCRIPT: "A script of a page requested it.",
    FORM: "A form that a browser window sends.",
    NO_NAVIGATION: "The browser fetched it without showing it.",
    ELSEWHERE: "Another site made the browser send it.",
    INTO_WINDOW: "Another site opened it in a window.",
    ARRIVAL: "Came over plain http, without cookies of this site, and not by one of its links.",
    UNMARKED_SITE: "Came while the site marked no links.",
    BY_PROGRAM: "No browser sends such a request.",
    WRONG_COOKIE: "A cookie of this site was invented, changed or cut off.",
    ANSWERED: "Another server had answered it already.",
}
"""What codes in `Visit.anomalies` mean that no detector has words for."""
_LOOSER = {
    "k1": "[containment]: k1",
    "k2": "[containment]: k2",
    "k1-programs": "the white list, for this program",
    "program-": "the white list, for this program",
    "under-attack": "the switch “under attack”, on the page Now",
}
"""What to loosen if that is not what the settings of the detector say."""


class Reason(msgspec.Struct, frozen=True):
    """A reason of a score: the code of the evidence, how often it was found, and what it means."""

    code: str
    times: int
    text: str


class ReasonCount(msgspec.Struct, frozen=True):
    """How often a code was found, and what it means."""

    code: str
    count: int
    text: str


class VisitorRow(msgspec.Struct, frozen=True):
    """
    A visitor that is suspected or blocked. *until* is the end of its block. *observed*: nothing of it is enforced.

    *gateway* is about how many people hold clearances at this address, if these are many.
    """

    visitor: str
    identity: str
    observed: bool
    until: float | None
    suspicion: float
    wrong_visits: int
    challenges: int
    why: str
    gateway: int
    reasons: list[Reason]


def visitor_rows(
    settings: Settings,
    blocks: Sequence[Block],
    scores: Sequence[tuple[str, VisitorScore]],
    now: float,
    *,
    observed: bool,
) -> list[VisitorRow]:
    """Return one row for each visitor, blocked visitors first, then by score."""
    blocked = {block.key: block for block in visitors_of(blocks)}
    score_of = {key: score for key, score in scores if not is_price_key(key)}
    gateways = gateways_among(scores, now)
    rows = [
        row_of(settings, key, score_of.get(key), blocked.get(key), now, observed=observed, gateway=gateways.get(key, 0))
        for key in {**blocked, **score_of, **gateways}
    ]
    return sorted(rows, key=lambda row: (row.until is None, -row.suspicion, row.visitor))


def row_of(
    settings: Settings,
    key: str,
    known: VisitorScore | None,
    block: Block | None,
    now: float,
    *,
    observed: bool,
    gateway: int = 0,
) -> VisitorRow:
    """Return the row of one visitor."""
    score = known if known is not None else VisitorScore()
    return VisitorRow(
        visitor=key,
        identity="blocked" if block else score.identity,
        observed=observed,
        until=block.until if block else None,
        suspicion=round(score_at(score, now, settings.policy.half_life), 3),
        wrong_visits=score.suspicious_visits,
        challenges=score.challenges,
        why=_why(score, block, gateway),
        gateway=gateway,
        reasons=[describe_reason(code, times) for code, times in score.reasons],
    )


def gateways_among(scores: Sequence[tuple[str, VisitorScore]], now: float) -> dict[str, int]:
    """Return the addresses at which several people hold clearances side by side, and about how many these are."""
    held = {gateway_of(key): score_at(score, now, HALF_LIFE) for key, score in scores if gateway_of(key)}
    return {address: round(count) for address, count in held.items() if count >= GATEWAY_FROM}


def _why(score: VisitorScore, blocked_by: Block | None, people: int) -> str:
    reasons = [blocked_by.evidence.text if blocked_by else explained(score) if score.reasons else ""]
    if people:
        reasons.append(f"A gateway: about {people} people hold clearances here.")
    return " ".join(filter(None, reasons))


def describe_reason(code: str, times: int = 1) -> Reason:
    """Return a reason with the words of its evidence; what differs from visit to visit is left out or general."""
    found = registry().find_code(code)
    if found is None:
        return Reason(code, times, _of_code(_OTHER_CODES, code, ("", ""))[0])
    if code in _GENERAL:
        return Reason(code, times, _GENERAL[code])
    text = _FIELD.sub(lambda field: _WORDS.get(field[1], "…"), _LAST_FIELD.sub(".", found[1].text))
    return Reason(code, times, text[:1].upper() + text[1:])


def describe_sign(code: str) -> str:
    """Return in words what was unusual about requests, from a code in `Visit.anomalies`."""
    if code.startswith(READ_BY):
        return "Has an account that it may have invented."
    return _SIGNS.get(code) or describe_reason(code).text or code


def what_to_loosen(code: str) -> str:
    """Return the settings by which evidence with this code becomes rarer, or what else helps."""
    if looser := _of_code(_LOOSER, code, ""):
        return looser
    found = registry().find_code(code)
    if found is None:
        return _of_code(_OTHER_CODES, code, ("", ""))[1]
    detector, _ = found
    return f"[{detector.table}]: {detector.enabled}" if detector.table else detector.enabled


def _of_code(table: Mapping[str, T], code: str, default: T) -> T:
    """Return the entry of a code, or of its longest beginning that ends with a hyphen."""
    if code in table:
        return table[code]
    return table.get(f"{code.partition('-')[0]}-", default)
