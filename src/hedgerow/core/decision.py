"""
Evidence and decisions: what a detector found, and what is done about it. Nouns; no behaviour.

Detectors give evidence, policy turns evidence into a decision, the web layer acts on it. Never two of these in one
place.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Action = Literal["pass", "challenge", "detain", "refuse"]
BlockResponse = Literal["refuse", "detain"]
"""What a blocked visitor gets."""

Observed = Literal["", "neutral", "links"]
"""How the site only observed at the time of a decision, or "" if it enforced."""

ISSUED_TO_ANOTHER = "minted-for-another"
"""The evidence code of a link that was issued to another visitor."""
UNMARKED = "unmarked"
"""The evidence code of an address to which no page of the site has a link."""


CLOSED = "closed"
"""The evidence code of a page that opens only by a marked link, and was requested without one."""


ATTENDED = "attended"
"""The code of evidence, without weight, that somebody uses the visitor's pages by hand."""
UNATTENDED = "unattended"
"""The code of evidence, without weight, that the visitor's browser reports its pages, and nobody uses them by hand."""
UNTOUCHED = "untouched"
"""The code of evidence, without weight, that a sign of a driven browser holds in how the visitor's pages are used."""
K1_ARRIVALS = "k1-arrivals"
"""The code of evidence of many pages today over plain http, without a cookie: see `core.visit.ARRIVAL`."""
PLAIN_ARRIVALS = "plain-arrivals"
"""The code of evidence that far more of such pages than usual are asked for just now, from many addresses."""
COOKIE_TESTED = frozenset({K1_ARRIVALS, PLAIN_ARRIVALS, "rate-visitor", "rate-prefix", "rate-network", "rate-slow"})
"""Evidence of pages that may be frames of other sites. A browser that keeps a cookie shows that its page is none."""
BEYOND_K2 = "beyond-k2"
"""The code of evidence, without weight, that a visitor has had more pages today than one clearance allows."""
TURNING, UNHURRIED, BRISK = "-turning", "-unhurried", "-brisk"
"""
The end of codes for the order of a crawler, by how a person can have it, such as `path-turning`.

Page by page; slowly; or at a pace at which a person can choose links, but hardly for long.
"""
HURRIED = "path-hurried"
"""The code of a visitor that has opened more pages by links, one right after the other, than people open as tabs."""
FOLLOWED_LINK = "program-follows"
"""The evidence code of a program that goes from page to page."""


JUDGED_PERSON = "judged-person"
"""The code in the score of a visitor with a clearance whose whole session was judged to be a person's. No evidence."""


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """
    What a detector found about a visit.

    *detector* is the name of the evidence group: a detector may have several. *code* is stable and for machines, *text*
    a sentence for people. *weight* is how much it speaks for a crawler: weights add up, and from 1.0 on the visitor is
    considered one.
    """

    detector: str
    code: str
    weight: float
    text: str
    key: str = ""
    """Whom it speaks about: a visitor, a prefix or a network. Empty: the visitor."""
    details: str = ""
    """Further data for machines, such as the digest (in hexadecimal) of the visitor that a link was issued to."""

    @property
    def issued_to(self) -> bytes | None:
        """The digest of the visitor that the link was issued to, for evidence of a link issued to another visitor."""
        return bytes.fromhex(self.details) if self.code == ISSUED_TO_ANOTHER else None


class PolicyRule(msgspec.Struct, frozen=True):
    """
    The consequence of evidence that alone is enough to decide: the action, and how many seconds a block lasts.

    With *block_for* 0 only this visit is affected. *steady* evidence is the same at each visit, such as a client's
    headers: it weighs with every visit and does not add up over visits. With *records_entry* the details of the
    evidence are remembered as an address that the visitor requested without a marker. Where nobody is blocked,
    *retry_after* is how many seconds a declined client is asked to wait, and *adds* what the visit adds to its score.
    With *challenges_first* the visitor is challenged as often as the policy allows in a day, before the rule applies.
    *price* is the lowest price of such a challenge.
    """

    action: Action
    block_for: float
    steady: bool = False
    records_entry: bool = False
    retry_after: float = 0.0
    adds: float = 0.0
    challenges_first: bool = False
    price: int = 0


class Block(msgspec.Struct, frozen=True):
    """
    A visitor, an address or a network that is kept out because of a detector's evidence.

    *prefix* is the address prefix at which the visitor was last seen; it is used to count the blocked accounts of one
    address.
    """

    key: str
    prefix: str
    since: float
    until: float
    action: Action
    evidence: Evidence
    offence: int = 1
    """Ordinal of this block among the remembered blocks of this key."""


Identity = Literal["person", "suspect", "depth-first", "width-first", "random-like"]
"""What a visitor is considered to be. The last three are crawlers, by the order in which they follow links."""


class VisitorScore(msgspec.Struct, frozen=True, gc=False, rename={"total": "suspicion", "suspicious_visits": "wrong"}):
    """
    What a visitor is considered to be, and why (PathMarker's user information).

    *total* is the sum of all evidence weights as it was at *at*; it halves every half-life. *suspicious_visits* counts
    the visits of *day* that spoke against the visitor, *challenges* how often it was challenged that day. *reasons* are
    evidence codes and how often each was found, the latest last. Stored files keep the earlier field names.
    """

    identity: Identity = "person"
    total: float = 0.0
    at: float = 0.0
    day: int = 0
    suspicious_visits: int = 0
    challenges: int = 0
    reasons: tuple[tuple[str, int], ...] = ()


class ScoreUpdate(msgspec.Struct, frozen=True, gc=False, rename={"suspicious": "wrong"}):
    """
    How the score of the visitor *key* changes.

    *weight* and *codes* are added; *suspicious* and *challenged* each count one more of *day*. *identity* is set where
    it is not empty. *cleared* says that the visitor solved a challenge: total and suspicious visits start again from
    zero. *entry* is an address that the visitor asked for without a marker; an entry alone does not create a score.
    """

    key: str
    at: float
    day: int
    half_life: float
    weight: float = 0.0
    codes: tuple[str, ...] = ()
    suspicious: bool = False
    challenged: bool = False
    cleared: bool = False
    identity: Identity | Literal[""] = ""
    entry: str = ""


class Campaign(msgspec.Struct, frozen=True):
    """
    Visitors that belong together, and a sentence that says why.

    *kind* "sharing": they use links that were issued to one another. "rotating": one crawler changes its address.
    """

    id: str
    kind: Literal["sharing", "rotating"]
    since: float
    seen: float
    members: tuple[str, ...]
    text: str
    links: float = 0.0
    pages: float = 0.0
    """Links of one another that they used, and pages that they requested by any link."""
    networks: int = 0
    rate: float = 0.0
    """For rotating addresses: the networks of the members, and their requests per minute."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """
    What to do with a visit, and the evidence for it.

    *until* is when the visitor is let in again, or 0. *change* updates the visitor's score once the visit is answered.
    *observed*: the site only observes ("links": with marked links, "neutral": without any change of its responses), so
    the visit passes, and this is what would have been done. *price* is the number of this challenge among those of the
    visitor's day: each costs more than the one before. *owes*: the visit passes, and the script of the page is to solve
    the challenge, or the visitor gets to see it soon.
    """

    action: Action
    evidence: tuple[Evidence, ...] = ()
    until: float = 0.0
    change: ScoreUpdate | None = None
    observed: Observed = ""
    owes: bool = False
    price: int = 0

    @property
    def code(self) -> str:
        """The code of the heaviest evidence, or "" where there is none."""
        return max(self.evidence, key=lambda e: e.weight).code if self.evidence else ""

    @property
    def lets_in(self) -> bool:
        return self.action == "pass" or self.observed != ""


PASS = Decision("pass")
