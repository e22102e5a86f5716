"""
What a detector declares next to its code: one `DetectorSpec` named `DETECTOR` in each file of this package.

Everything else is derived from these declarations by `registry`: the engine's detectors, the policy's rules, tables of
the settings file, the documentation, and the detectors' part of reports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal, Protocol, TypeVar

import msgspec

from hedgerow.core.attack import AttackSwitch
from hedgerow.core.daily_limits import DailyLimits
from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.page_times import PageTimes
from hedgerow.core.settings_table import Table
from hedgerow.core.state import Detector
from hedgerow.core.visit import BY_PROGRAM, HIDDEN_KINDS, Visit
from hedgerow.request.browser_signs import BrowserSigns, is_one_browser
from hedgerow.request.network_rules import NetworkRules
from hedgerow.request.path_rules import PathRule, PathRules

T = TypeVar("T", bound=Table)

StateNeed = Literal["network", "day", "site_rate"]
"""What the state counts only where a detector asks for it: visits by network, by day, and of the whole site."""

VisitTrait = Literal["anomalies", "claim", "hidden-link", "one-browser", "program"]
"""What sets a visit apart from most others: see `VISIT_TRAITS`."""

VISIT_TRAITS: dict[VisitTrait, str] = {
    "anomalies": "visits with any anomaly",
    "claim": "visits of clients that claim to be a known bot",
    "hidden-link": "visits to hidden links",
    "one-browser": "visits with a clearance or an account",
    "program": "visits of programs",
}

ReportColumn = Literal[
    "requests", "pages", "calls", "assets", "errors", "peak_0", "peak_1", "peak_2", "peak_3", "user_agent", "http_1_0"
]
"""
What a report tells a detector about one source. *peak_0* and so on are the most pages within each of
`core.rate_limit.PEAK_SECONDS`; *http_1_0* says that every request was made in HTTP/1.0.
"""


def traits_of(visit: Visit) -> tuple[bool, ...]:
    """Return which of `VISIT_TRAITS` a visit has, in their order."""
    anomalies, marker = visit.anomalies, visit.marker
    return (
        bool(anomalies),
        bool(visit.claim),
        marker is not None and marker.kind in HIDDEN_KINDS,
        is_one_browser(visit),
        BY_PROGRAM in anomalies,
    )


class SettingsTables(Protocol):
    """The settings, by table."""

    @property
    def path(self) -> tuple[PathRule, ...]: ...

    def table(self, kind: type[T]) -> T: ...


class EvidenceCode(msgspec.Struct, frozen=True):
    """
    One kind of evidence: the group that it belongs to, its code, its default weight and its sentence.

    *text* is a `str.format` template. *when* tells the operator when this evidence is given, where *text* does not.
    """

    group: str
    code: str
    weight: float
    text: str
    when: str = ""

    def evidence(self, *, weight: float | None = None, key: str = "", details: str = "", **fields: object) -> Evidence:
        text = self.text.format(**fields) if fields else self.text
        return Evidence(self.group, self.code, self.weight if weight is None else weight, text, key, details)


class EvidenceGroup(msgspec.Struct, frozen=True):
    """
    Evidence that has the same consequence. Its name is `Evidence.detector` in JSON and in the ledger.

    *rule* is that consequence, or a function that reads it from the settings. *status* is the HTTP status of a refusal.
    """

    name: str
    rule: PolicyRule | Callable[[SettingsTables], PolicyRule]
    status: int = 403

    def rule_for(self, settings: SettingsTables) -> PolicyRule:
        return self.rule if isinstance(self.rule, PolicyRule) else self.rule(settings)


class DetectorContext(msgspec.Struct, frozen=True):
    """
    What a detector is built from.

    *page_name* turns the digest of a page into its path, or into "" if the page is not known any more. *marks_links*
    says whether links of this site are marked at all, *hides_marks* whether scripts that open a clicked link ask for it
    without its mark, *is_marked* whether links to a target are, *is_closed* whether a target may only be reached by a
    marked link. *refused_bots* are the names of bots that the settings refuse, or None
    where known bots are not recognised. *licensed_bots* are those that need a license; its terms are at *license_url*.
    *access_log*: the visits come from a log in which links are not marked.
    *clears_silently*: pages have a script by which browsers obtain a clearance. *page_times*: how long the site takes
    for a page. *daily_limits*: how many pages a day visitors may have. *browser_signs* is shared by the detectors
    of driven browsers. *paths* are the rules for parts of the site, or None; *networks* those for
    countries and network operators. *has_fingerprints*: a proxy reports those of TLS handshakes.
    *attack* is the switch by which the whole site asks for clearances.
    """

    settings: SettingsTables
    page_name: Callable[[bytes], str]
    marks_links: bool
    is_marked: Callable[[str], bool]
    is_closed: Callable[[str], bool]
    refused_bots: Collection[str] | None
    access_log: bool = False
    clears_silently: bool = True
    page_times: PageTimes | None = None
    daily_limits: DailyLimits | None = None
    browser_signs: BrowserSigns = msgspec.field(default_factory=BrowserSigns)
    paths: PathRules | None = None
    networks: NetworkRules | None = None
    has_fingerprints: bool = False
    licensed_bots: Collection[str] = ()
    license_url: str = ""
    hides_marks: bool = False
    attack: AttackSwitch = msgspec.field(default_factory=AttackSwitch)


class ReportRule(msgspec.Struct, frozen=True):
    """
    How a detector judges one source of a log. *judge* is called with the values of *columns*.

    Sources that agree in all columns are judged once, so *judge* may depend on nothing else. A source whose evidence
    weighs 1.0 or more is held to be a crawler; lighter evidence is shown and does not count.
    """

    columns: tuple[ReportColumn, ...]
    judge: Callable[..., Sequence[Evidence]]


def _nothing(_: SettingsTables) -> frozenset[StateNeed]:
    return frozenset()


class DetectorSpec(msgspec.Struct, frozen=True):
    """
    A detector.

    *doc* is the docstring of its file. Evidence is listed in the sequence of *order*. *build* returns None where the
    settings switch the detector off; *enabled* tells the operator how. *table* is the name of the settings table that
    the detector reads, and *schema* its class where the detector owns it. *needs* says what the state must count.
    *only* names the visits that the detector is asked about; None: all. *replay* is false for a detector that is of no
    use on logged visits. *report* is how it judges a source of a log.
    """

    name: str
    doc: str | None
    order: int
    groups: tuple[EvidenceGroup, ...]
    codes: tuple[EvidenceCode, ...]
    build: Callable[[DetectorContext], Detector | None]
    enabled: str = "Always on."
    table: str = ""
    schema: type[Table] | None = None
    needs: Callable[[SettingsTables], frozenset[StateNeed]] = _nothing
    only: VisitTrait | None = None
    replay: bool = True
    report: Callable[[SettingsTables], ReportRule | None] | None = None

    @property
    def summary(self) -> str:
        """The first paragraph of the detector's docstring, on one line."""
        return " ".join((self.doc or "").strip().split("\n\n", maxsplit=1)[0].split())
