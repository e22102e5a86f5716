"""
A program, such as curl, a package manager or a preview bot, gets its page unchanged. If it follows links, it crawls.

A program is a client whose request is none that a browser makes: its headers say so, not its user agent. The first page
that it asks for within an hour has neither hidden nor marked links. Every other page has, so a program that goes on
from page to page meets traps. The links of the unchanged page are remembered: one of them may be followed every ten
seconds. A program that is declined for this ten times and goes on is blocked. A list of files, and the files below it,
always stay as they are.

A crawler that reads robots.txt gets no unchanged page. If it reads robots.txt only after the first page, as wget does,
it is told there to request nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.decision import FOLLOWED_LINK, Evidence, PolicyRule
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.robots_reader import ROBOTS_TXT
from hedgerow.detectors.spec import DetectorSpec, EvidenceCode, EvidenceGroup, SettingsTables
from hedgerow.detectors.trap import TrapSettings
from hedgerow.markers.rules import may_be_page
from hedgerow.request.program_history import PACE, ProgramHistory, followed_entry, page_entry

_WITH_REFERRER = 0.5
_ADDED_IN_HASTE = 0.1
_TOO_MUCH = 1.0
_REMEMBERED_FOR = 600.0

_FIRST = EvidenceCode("program", "program-page", 0.0, "The first page of a program.", "It is given unchanged.")
_FURTHER = EvidenceCode(
    "program", "program-pages", 0.0, "Another page of the same program.",
    "The program was given another page within the last hour, or has read robots.txt, as crawlers do. The page has "
    "hidden and marked links.",
)  # fmt: skip
_AGAIN = EvidenceCode(
    "program", "program-again", 0.0, "A page that the program has had before.",
    "It is among the last eight that are remembered. It does not count for the pages of a day (`k1-programs`).",
)  # fmt: skip
_FILE = EvidenceCode(
    "program", "program-file", 0.0, "A file below a list of files.",
    "The site has listed the files of this folder, or of one above it, to the program within the last day. It is "
    "given unchanged and does not count as a page.",
)  # fmt: skip
_ROBOTS = EvidenceCode(
    "program", "program-robots", 0.0, "A program reads robots.txt.", "Its next page has hidden and marked links."
)
_LATE_ROBOTS = EvidenceCode(
    "program", "program-robots-late", 0.0, "A program reads robots.txt after its first page.",
    "It is about to follow the links of that page. Its robots.txt disallows everything.",
)  # fmt: skip
_FOLLOWS = EvidenceCode(
    "program", FOLLOWED_LINK, 0.1, "A program followed a link of {page}, which it was given unchanged.",
    f"The target is among the links of that page. It weighs {_WITH_REFERRER} if the request names a page of this site "
    "as its referrer.",
)  # fmt: skip
_HASTY = EvidenceCode(
    "program-haste", "program-hasty", 1.0, "A program follows links of {page}, more than one in {seconds:g} seconds.",
    f"The same, too fast. Answered with 429. Each time adds {_ADDED_IN_HASTE} to the score.",
)  # fmt: skip
_CRAWLS = EvidenceCode(
    "crawling", "program-crawls", 1.0, "A program follows all links of {page}, however often it is declined.",
    "The same, after ten times.",
)  # fmt: skip
FIRST_PAGE, LISTED_FILE, LATE_ROBOTS, KNOWN_PAGE = _FIRST.code, _FILE.code, _LATE_ROBOTS.code, _AGAIN.code
CRAWLING = frozenset({code.code for code in (_FURTHER, _FOLLOWS, _HASTY, _CRAWLS)})
"""Codes of evidence with which a page for a program is rewritten like one for a browser."""


def detect_program_pages(visit: Visit, reply: StateReply) -> Sequence[Evidence]:
    """Tell the first page of a program from those that it goes on to."""
    if not (visit.target == ROBOTS_TXT or may_be_page(visit.target)):
        return ()
    history = ProgramHistory(reply.entries, visit)
    if visit.target == ROBOTS_TXT:
        code = _LATE_ROBOTS if history.began_just_now else _ROBOTS
        return (code.evidence(details="" if history.had_this else page_entry(visit)),)
    if history.is_listed_file:
        return (_FILE.evidence(),)
    again = (_AGAIN.evidence(),) if history.knew_this else ()
    if history.had_this_unchanged:
        return again
    if visit.marker is None and not history.knew_this and (page := history.links_here):
        return (_follows(visit, reply, history, page),)
    if visit.kind != "page":
        # Whether it gets a page is known only from the response, such as that to a POST or to a range.
        return again
    if history.had_others:
        entry = "" if history.had_this else page_entry(visit)
        return (_FURTHER.evidence(details=history.fading_entry or entry), *again)
    return (_FIRST.evidence(), *again)


def _follows(visit: Visit, reply: StateReply, history: ProgramHistory, page: str) -> Evidence:
    """Return the evidence of a program that follows a link of *page*."""
    if not history.is_hasty:
        weight = _WITH_REFERRER if visit.origin == "same" else None
        return _FOLLOWS.evidence(weight=weight, details=history.fading_entry or followed_entry(visit), page=page)
    score = reply.score
    if score is not None and score.total >= _TOO_MUCH and visit.at - score.at < _REMEMBERED_FOR:
        return _CRAWLS.evidence(page=page)
    return _HASTY.evidence(page=page, seconds=PACE)


def _block_rule(settings: SettingsTables) -> PolicyRule:
    traps = settings.table(TrapSettings)
    return PolicyRule(traps.response, traps.block_for)


DETECTOR = DetectorSpec(
    name="programs",
    doc=__doc__,
    # Before the integrity detector: of two entries the first one is remembered.
    order=15,
    groups=(
        EvidenceGroup("program", PolicyRule("refuse", 0.0, records_entry=True)),
        EvidenceGroup("program-haste", PolicyRule("refuse", 0.0, retry_after=PACE, adds=_ADDED_IN_HASTE), 429),
        EvidenceGroup("crawling", _block_rule),
    ),
    codes=(_FIRST, _AGAIN, _FILE, _FURTHER, _ROBOTS, _LATE_ROBOTS, _FOLLOWS, _HASTY, _CRAWLS),
    build=lambda _: detect_program_pages,
    replay=False,
    only="program",
)
