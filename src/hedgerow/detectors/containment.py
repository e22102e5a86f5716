"""
A visitor without an account has had more pages today than its budget allows (PubCrawl's containment).

Without a clearance an address may have k1 pages a day. After that it is challenged. Browsers obtain a clearance by
themselves while the first page is read, and every holder has a budget of its own. Above k2 pages a day the models
decide, as in the paper: a holder whose last whole session was judged to be a person's goes on, and one that is judged a
crawler pays for its clearance again and again. So is one whose pages are not reached by links of the site, although
these are marked. Where no model has judged, the clearance has to be earned again after each k2 pages, which a browser
does by itself. Where a rate is set, all this holds only while the site is busy.

A program cannot solve a challenge. The pages that it is given count apart, and after twice k1 in a day others are
declined, unless a rate is set. Only a response shows whether it is a page. Files, feeds, calls, directory listings and
package indexes do not count.

What scripts fetch counts apart, because a page may fetch all its links. So do prefetched pages, and what other sites
make a browser load. None of these uses up the pages that a visitor may read. They have limits of their own, or a
crawler could say that it is a script. Once the pages that an address may read are used up, scripts and prefetches get
none either: a page from which they could come would not be served.

A gateway is an address of several people, such as a school. For each clearance that is held there side by side with
others, the address may have another k1 pages without one. A crawler gains nothing by this: with each of these
clearances it may read more pages anyway.

Where the settings do not say otherwise, k1 and k2 are 20 and 300 at first. Once a thousand days of people are known,
they rise to what one in a thousand of these days exceeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Meta

from hedgerow.core.daily_limits import K1, K2, DailyLimits
from hedgerow.core.decision import BEYOND_K2, JUDGED_PERSON, K1_ARRIVALS, Evidence, PolicyRule, VisitorScore
from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.core.state import ACCOUNT, StateReply
from hedgerow.core.visit import ARRIVAL, BY_PROGRAM, BY_SCRIPT, ELSEWHERE, INTO_WINDOW, Visit, is_fetched
from hedgerow.detectors.spec import (
    DetectorContext,
    DetectorSpec,
    EvidenceCode,
    EvidenceGroup,
    SettingsTables,
    StateNeed,
)

_K1 = EvidenceCode(
    "containment", "k1", 1.0, "More than {limit} pages today without a clearance.",
    "More than `k1` pages today from one address, by visitors without a clearance; more at a gateway. Challenged; "
    "nobody is blocked.",
)  # fmt: skip
_SCRIPTED = EvidenceCode(
    "containment-scripts", "k1-scripts", 1.0, "More than {limit} pages today for scripts, without a clearance.",
    "More than twice `k1` pages today from one address that were prefetched, or fetched by what says that it is a "
    "script. Declined with 429; nobody is blocked. These pages do not count for `k1`.",
)  # fmt: skip
_SCRIPTS = 2
_ARRIVING = 2
"""Which part of k1 may come without a cookie. One half, because such a client may read k1 pages by links, too."""
_NETWORK = EvidenceCode(
    "containment", "k1-network", 1.0, "More than {limit} pages today without a clearance from this network.",
    "More than ten times `k1` pages today from one IPv6 network (/48), by visitors without a clearance; more for each "
    "clearance that is held there. Challenged; nobody is blocked.",
)  # fmt: skip
_ADDRESSES = 10
_PROGRAMS = EvidenceCode(
    "containment-programs", "k1-programs", 1.0, "Programs have had more than {limit} pages today.",
    "More than twice `k1` pages today for programs at one address; more at a gateway, `k2` with a clearance. Declined "
    "with 429; nobody is blocked. Pages that it has had lately, files, feeds, calls and lists of files do not count.",
)  # fmt: skip
_ELSEWHERE = EvidenceCode(
    "containment-scripts", "k1-elsewhere", 1.0, "Other sites have led to more than {limit} pages today.",
    "More than `elsewhere` pages today that other sites made the browsers of one address load, without a clearance. "
    "Declined with 429; nobody is blocked. Such pages count for nothing else.",
)  # fmt: skip
_WINDOWS = EvidenceCode(
    "containment", "k1-windows", 1.0, "Other sites have opened more than {limit} pages today.",
    "More than `k1` pages today that other sites opened in windows, without a click of the user. This page is "
    "challenged; nothing else is.",
)  # fmt: skip
_ARRIVALS = EvidenceCode(
    "containment", K1_ARRIVALS, 1.0, "More than {limit} pages today over plain http, without a cookie.",
    "More than half of `k1` pages today at one address that came over plain http, without a cookie of this site, and "
    "not by one of its links, as frames of other sites do. The browser has to show that it keeps a cookie, by a "
    "redirect that nobody sees; one that does not is challenged. Such pages count for nothing else.",
)  # fmt: skip
_SCRIPTED_K2 = EvidenceCode(
    "containment-scripts", "k2-scripts", 1.0, "More than {limit} pages today for scripts.",
    "More than five times `k2` such pages today by the holder of one clearance; of pages by marked links, and of "
    "prefetched ones, more than `k2`. Declined with 429; nobody is blocked. Parts of pages do not count, and these "
    "pages do not count for `k2`.",
)  # fmt: skip
_SCRIPTS_OF_HOLDER = 5
_K2 = EvidenceCode(
    "containment", "k2", 1.0, "Another {limit} pages today.",
    "Another `k2` pages today by the holder of one clearance. It has to be earned again.",
)  # fmt: skip
_K2_PERSON = EvidenceCode(
    "containment", "k2-person", 0.0, "Another {limit} pages today, in the way of a person.",
    "The same, of a visitor whose last whole session (`watch.paths`, else `watch.windows`) was judged a person's. "
    "Nothing follows.",
)  # fmt: skip

_BEYOND_K2 = EvidenceCode(
    "containment", BEYOND_K2, 0.0, "More pages today than one clearance allows.",
    "More than `k2` pages today with one clearance. Then the order of its pages counts, whatever its pace is, and so "
    "does a session without marked links.",
)  # fmt: skip
_BEYOND_K2_EVIDENCE = _BEYOND_K2.evidence()


class ContainmentSettings(Table, frozen=True):
    """PubCrawl's containment of visitors without an account."""

    enabled: Annotated[
        bool | Literal["auto"],
        Meta(
            description="Contain visitors that are neither identified nor listed. `auto`: where browsers get a script "
            "that obtains a clearance, so not with forward-auth."
        ),
    ] = "auto"
    k1: Annotated[
        int | Literal["auto"],
        Meta(
            description="Pages per day and address without a clearance, before a challenge. `auto`: 20, or more if one "
            "in a thousand of people's days on this site has more; at most 100."
        ),
    ] = "auto"
    k2: Annotated[
        int | Literal["auto"],
        Meta(
            description="Pages per day with one clearance, above which the models decide. `auto`: 300, or more if one "
            "in a thousand of people's days on this site has more; at most 1,000. See `hedgerow limits`."
        ),
    ] = "auto"
    elsewhere: Annotated[
        int | Literal["auto"],
        Meta(
            description="Pages per day and address that other sites may load into frames and the like, without a "
            "clearance, before they are declined. Raise it if other sites embed your pages. `auto`: twice `k1`."
        ),
    ] = "auto"
    white_volume: Annotated[
        int,
        Meta(description="A white-listed source with more requests in a day is treated as unlisted until midnight."),
    ] = 100_000
    above_rate: Annotated[
        float, Meta(description="Contain only while the whole site has this many visits per second; 0: always.")
    ] = 0.0

    def faults(self) -> Faults:
        yield from positive_faults(
            self, "white_volume", *(name for name in ("k1", "k2", "elsewhere") if getattr(self, name) != "auto")
        )
        k1, k2 = K1 if self.k1 == "auto" else self.k1, K2 if self.k2 == "auto" else self.k2
        if k2 < k1:
            yield "k2", f"must be at least k1, {k1}; is {k2}"
        if not (self.above_rate >= 0 and math.isfinite(self.above_rate)):
            yield "above_rate", f"must be 0 or more, is {self.above_rate}"


class ContainmentDetector:
    """
    Gives evidence of how much a visitor without an account has requested today; *above_rate* 0: always.

    With *k1* or *k2* 0 the number is that of *limits* at the time. *elsewhere* is the limit of what other sites load;
    0: twice k1. *hides_marks*: see `DetectorContext`.
    """

    def __init__(
        self,
        k1: int,
        k2: int,
        *,
        above_rate: float = 0.0,
        limits: DailyLimits | None = None,
        elsewhere: int = 0,
        hides_marks: bool = False,
    ) -> None:
        self._hides_marks = hides_marks
        self._elsewhere = elsewhere
        self._own_k1 = k1
        self._own_k2 = k2
        self._above_rate = above_rate
        self._limits = DailyLimits() if limits is None else limits

    @property
    def _k1(self) -> int:
        return self._own_k1 or self._limits.k1

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        if reply.site_rate < self._above_rate:
            return ()
        if visit.kind == "asset":
            return ()
        is_script, is_elsewhere, reader = is_fetched(visit), ELSEWHERE in visit.anomalies, visit.reader
        if reader.startswith(ACCOUNT) or (is_elsewhere and visit.kind == "call"):
            return ()
        if reader != visit.prefix:
            return self._cleared(visit, reply, apart=is_script or is_elsewhere)
        if is_elsewhere:
            in_window = INTO_WINDOW in visit.anomalies
            limit = (self._k1 if in_window else self._elsewhere or 2 * self._k1) * (1 + reply.held)
            code = _WINDOWS if in_window else _ELSEWHERE
            return (code.evidence(limit=limit),) if reply.today > limit else ()
        if ARRIVAL in visit.anomalies:
            return self._arrived(visit, reply)
        if BY_PROGRAM in visit.anomalies or visit.proof == "pending":
            return ()
        k1 = self._own_k1 or self._limits.k1
        most = _ADDRESSES * k1 * (1 + reply.held_in_network)
        if reply.of_network > most:
            return (_NETWORK.evidence(limit=most),)
        limit = k1 * (1 + reply.held)
        # Prefetched pages count apart. Once the pages are used up, they are not served either.
        if reply.read_today and reply.read_today >= limit:
            return (_k1_evidence(limit),)
        # Nor are calls, which do not count.
        today = reply.today + (visit.kind == "call")
        if is_script:
            return (_SCRIPTED.evidence(limit=_SCRIPTS * limit),) if today > _SCRIPTS * limit else ()
        return (_k1_evidence(limit),) if today > limit else ()

    def _arrived(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        """Judge a page that may be in a frame of another site."""
        if visit.proof == "pending":
            return ()
        most = max(1, self._k1 // _ARRIVING)
        limit, of_network = most * (1 + reply.held), _ADDRESSES * most * (1 + reply.held_in_network)
        if reply.of_network > of_network:
            return (_ARRIVALS.evidence(limit=of_network),)
        return (_ARRIVALS.evidence(limit=limit),) if reply.today > limit else ()

    def on_program_page(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:
        """Judge a program that is about to be given a page; *reply* has how many it was given today."""
        if visit.reader.startswith(ACCOUNT) or self._above_rate:
            return ()
        is_holder = visit.reader != visit.prefix
        limit = (self._own_k2 or self._limits.k2) if is_holder else _SCRIPTS * self._k1 * (1 + reply.held)
        return (_PROGRAMS.evidence(limit=limit),) if reply.today > limit else ()

    def _cleared(self, visit: Visit, reply: StateReply, *, apart: bool) -> Sequence[Evidence]:
        """Judge the holder of a clearance; *apart*: scripts or other sites asked for the page."""
        k2 = self._own_k2 or self._limits.k2
        if apart:
            limit = k2 if self._hides_marks and _is_loaded_in_advance(visit) else _SCRIPTS_OF_HOLDER * k2
            return (_SCRIPTED_K2.evidence(limit=limit),) if reply.today + (visit.kind == "call") > limit else ()
        if reply.today <= k2:
            return ()
        if visit.kind == "call":
            is_suspect = reply.score is not None and bool(reply.score.total)
            return (_BEYOND_K2_EVIDENCE,) if is_suspect else ()
        if reply.today % k2 != 1:
            return (_BEYOND_K2_EVIDENCE,)
        code = _K2_PERSON if _is_judged_a_person(reply.score) else _K2
        return (code.evidence(limit=k2), _BEYOND_K2_EVIDENCE)

    def needs_held(self, visit: Visit, reply: StateReply) -> bool:
        """Tell whether the pages without a clearance are used up, unless the address is a gateway."""
        least = self._k1 // _ARRIVING if ARRIVAL in visit.anomalies else self._k1
        return reply.today >= least and visit.reader == visit.prefix


@lru_cache(maxsize=64)
def _k1_evidence(limit: int) -> Evidence:
    """Return the evidence that crawlers get most often."""
    return _K1.evidence(limit=limit)


def _is_loaded_in_advance(visit: Visit) -> bool:
    """
    Tell whether a page is prefetched, or fetched by a marked link, but not by a click, and not to go on with a list.

    Where a script shows the pages, it asks for those that are clicked without a mark. So nobody misses this one. What
    other sites load, and forms that scripts send, are neither.
    """
    if ELSEWHERE in visit.anomalies:
        return False
    if visit.kind == "prefetch":
        return True
    is_by_script = BY_SCRIPT in visit.anomalies and visit.method == "GET"
    return is_by_script and visit.marker is not None and visit.marker.kind == "page"


def _is_judged_a_person(score: VisitorScore | None) -> bool:
    """Tell whether the models had the last word, and said that it is a person."""
    if score is None or score.identity != "person" or not score.reasons:
        return False
    return score.reasons[-1][0] == JUDGED_PERSON


def _build(context: DetectorContext) -> ContainmentDetector | None:
    own = context.settings.table(ContainmentSettings)
    enabled = context.clears_silently if own.enabled == "auto" else own.enabled
    if not enabled:
        return None
    k1, k2 = 0 if own.k1 == "auto" else own.k1, 0 if own.k2 == "auto" else own.k2
    elsewhere = 0 if own.elsewhere == "auto" else own.elsewhere
    return ContainmentDetector(
        k1, k2, above_rate=own.above_rate, limits=context.daily_limits, elsewhere=elsewhere,
        hides_marks=context.hides_marks,
    )  # fmt: skip


def _needs(settings: SettingsTables) -> frozenset[StateNeed]:
    return frozenset({"day", "site_rate"} if settings.table(ContainmentSettings).above_rate else {"day"})


DETECTOR = DetectorSpec(
    name="containment",
    doc=__doc__,
    order=70,
    groups=(
        EvidenceGroup("containment", PolicyRule("challenge", 0.0)),
        EvidenceGroup("containment-scripts", PolicyRule("refuse", 0.0, retry_after=60.0), status=429),
        EvidenceGroup("containment-programs", PolicyRule("refuse", 0.0, retry_after=3600.0), status=429),
    ),
    codes=(
        _K1,
        _NETWORK,
        _K2,
        _K2_PERSON,
        _BEYOND_K2,
        _SCRIPTED,
        _SCRIPTED_K2,
        _PROGRAMS,
        _ELSEWHERE,
        _WINDOWS,
        _ARRIVALS,
    ),
    build=_build,
    enabled="`containment.enabled` (on, except with forward-auth)",
    table="containment",
    schema=ContainmentSettings,
    needs=_needs,
)
