"""
Result: the whole report as arrays, and as JSON with one line per source.

The same log gives the same bytes. Times are not part of that: they are under "timing", and only on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from operator import add
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.core.decision import Evidence
from hedgerow.logs.formats import iso, readable
from hedgerow.logs.reader import ReadCounts
from hedgerow.report.activity import KINDS
from hedgerow.report.heuristics import Votes
from hedgerow.report.label_rules import may_be_listed
from hedgerow.report.live_opinions import DeclaredBots
from hedgerow.report.rate_limit_proposal import Proposal
from hedgerow.report.source_labels import LABELS, REASONS, UNKNOWN, ResidualTraffic, SourceLabels, rounded
from hedgerow.report.tables.source_tables import Tables

SURE = 0.9
"""The score from which on a crawler is listed."""
NAMED = ("account", "session")
"""What sources may be that have a name of their own, and no address in it."""

_FIRST, _BEYOND = (int(np.datetime64(f"{year}-01-01", "us").astype(np.int64)) for year in ("0001", "10000"))
_ENCODER = msgspec.json.Encoder()
_readable = lru_cache(maxsize=1 << 14)(readable)
"""For texts that come again and again."""


def dump(data: Any) -> str:
    return _ENCODER.encode(data).decode("utf-8")


def shown(name: str) -> str:
    """Return the name of a source in printable form."""
    return name if name.isascii() and name.isprintable() else readable(name)


def _all_shown(names: list[str]) -> list[str]:
    """Return many names in printable form. Usually all of them are printable already."""
    together = "".join(names)
    return names if together.isascii() and together.isprintable() else [shown(name) for name in names]


def _json_lines(
    some: NDArray[np.int64],
    tables: Tables,
    judgements: SourceLabels,
    declared: DeclaredBots | None,
    campaign_of: Mapping[str, str],
) -> list[str]:
    """
    Return the sources at the places *some* as lines of JSON, built column by column. Common texts are encoded once.
    """
    figures = tables.figures
    names = [tables.sources[place] for place in some.tolist()]
    columns = zip(
        _dumped(_all_shown(names)),
        _dumped(figures["requests"][some].tolist()),
        [LABELS[label] for label in judgements.label[some].tolist()],
        _dumped(rounded(judgements.score[some], 4).tolist()),
        _evidence(some, judgements),
        [campaign_of.get(name, "null") for name in names],
        _dumped(_isos(figures.first[some])),
        _dumped(_isos(figures.last[some])),
        _dumped(figures["pages"][some].tolist()),
        _more(some, names, tables, judgements, declared),
        strict=True,
    )
    return [
        f'{{"source":{name},"requests":{requests},"label":"{label}","score":{score},"evidence":[{evidence}],'
        f'"campaign":{campaign},"first":{first},"last":{last},"pages":{pages}{more}}}'
        for name, requests, label, score, evidence, campaign, first, last, pages, more in columns
    ]


def _dumped(column: Sequence[Any]) -> list[str]:
    """Return each value as JSON without newlines."""
    return _ENCODER.encode_lines(column).decode("utf-8").split("\n")[:-1]


def _evidence(some: NDArray[np.int64], judgements: SourceLabels) -> list[str]:
    """Return the evidence about each source, as the elements of a JSON list."""
    whom, kind, weight, text = judgements.findings(some)
    begins = [f'{{"detector":{dump(detector)},"code":{dump(code)},"weight":' for detector, code in judgements.kinds]
    sentences = list(set(text))
    encoded = dict(zip(sentences, _dumped(sentences), strict=True))
    columns = zip(kind.tolist(), _dumped(weight.tolist()), text, strict=True)
    pieces = [f'{begins[kind]}{weight},"text":{encoded[text]}}}' for kind, weight, text in columns]
    bounds = np.searchsorted(whom, np.arange(len(some) + 1)).tolist()
    return [",".join(pieces[begin:end]) for begin, end in pairwise(bounds)]


def _more(
    some: NDArray[np.int64], names: list[str], tables: Tables, judgements: SourceLabels, declared: DeclaredBots | None
) -> Iterable[str]:
    """
    Return what only some sources have: an address beside the name, a kind, the reason why a source is unknown, a user
    agent, the bot that a source claims to be.
    """
    places = some.tolist()
    found = list(map(_judged, judgements.activity[some].tolist(), judgements.reason[some].tolist()))
    if declared is not None:
        said = map(_says, declared.agents_of(some), map(declared.bot, places))
        found = list(map(add, found, said))
    if tables.by in NAMED:
        own = [tables.addresses[place] for place in places]
        return map(_beside_its_name, names, own, found)
    return found


def _beside_its_name(name: str, address: str, more: str) -> str:
    return f',"address":{dump(address)}{more}' if address not in {"", name} else more


@cache
def _judged(activity: int, reason: int) -> str:
    kind = f',"kind":{dump(KINDS[activity])}' if activity else ""
    return f'{kind},"reason":{dump(REASONS[reason])}' if reason else kind


@lru_cache(maxsize=1 << 14)
def _says(agent: str, bot: str) -> str:
    extra = f',"user_agent":{dump(_readable(agent))}' if agent else ""
    return f'{extra},"bot":{dump(bot)}' if bot else extra


def _isos(times: NDArray[np.int64]) -> list[str | None]:
    """Return what `iso` gives for each of *times*, in microseconds."""
    texts = np.datetime_as_string((times // 1000).astype("datetime64[ms]"), timezone="UTC").tolist()
    # Before and after these a year has not four digits, and none of ours.
    if len(times) and times.min() >= _FIRST and times.max() < _BEYOND:
        return list(texts)
    return [text if _FIRST <= at < _BEYOND else None for text, at in zip(texts, times.tolist(), strict=True)]


_SORTS = {
    "visitor": "", "address": "Sources are addresses.", "prefix": "Sources are IPv4 addresses and IPv6 /64.",
    "network": "Sources are networks: IPv4 /24 and IPv6 /48.",
    "account": "Sources are accounts, and addresses where a line names none.",
    "session": "Sources are sessions, and addresses where a line names none.",
}  # fmt: skip

_ADVICE = {
    "unknown": "Most lines are in no format that is known: give the server's own log_format or LogFormat by --format.",
    "pattern": "Most lines are not in the format that was given: see --format, or [logs] format in the settings.",
    "json": "Most lines name no client or no time that is known: say what they are called by [logs] fields.",
    "parquet": "Most rows name no client or no time that is known: say what they are called by [logs] fields.",
}

_AT_ONCE = 2048


def advice_on(counts: ReadCounts) -> str:
    """Return what to do if most of a log could not be read; else ""."""
    if 2 * counts.bad <= counts.lines:
        return ""
    return next((_ADVICE[name] for name in counts.formats if name in _ADVICE), _ADVICE["unknown"])


class SourceResult(msgspec.Struct, frozen=True):
    """
    One source of the report. *address* is the first address of a source that is known by a name.

    *kind* is what it does apart from reading pages, *reason* why it is unknown; "" for most.
    """

    source: str
    requests: int
    label: str
    score: float
    evidence: list[Evidence]
    campaign: str | None
    first: float
    last: float
    pages: int
    agent: str
    bot: str
    address: str = ""
    kind: str = ""
    reason: str = ""


class CampaignResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sources that belong together, and a sentence that says why; *shifts* as in `SimilarGroups`."""

    id: str
    kind: str
    members: list[str]
    similarity: float
    text: str
    shifts: dict[str, float] = {}


class Containment(msgspec.Struct, frozen=True):
    """
    What the limits k1 and k2 would affect in this log (PubCrawl, figures 6 and 7, table 9).

    *volumes*: how many source-days have at most 1, 2, 4, ... requests, and how many requests these are. *grid*: table
    9. *k1* and *k2* are proposals, None if the log is too small.
    """

    sources: int
    requests: int
    volumes: list[dict[str, int]]
    grid: list[dict[str, int]]
    k1: int | None
    k2: int | None


def _containment_json(found: Containment, windows: list[Proposal]) -> dict[str, Any]:
    proposed = [
        {"count": one.window.count, "seconds": one.window.seconds, "reached": one.reached, "touched": one.touched,
         "touched_ordinary": one.touched_ordinary}
        for one in windows
    ]  # fmt: skip
    result: dict[str, Any] = msgspec.to_builtins(found)
    return result | {"density": proposed}


class Method(Protocol):
    """A method that is not our own, as a sentence and as JSON."""

    @property
    def text(self) -> str: ...

    def to_json(self) -> dict[str, Any]: ...


class Report:
    """
    The report on a log: *read_counts*, *tables*, *judgements*, *campaigns*.

    `ranked` has the places of all sources. `source` returns the source at a place, `sources_at` many.
    """

    def __init__(
        self,
        tables: Tables,
        judgements: SourceLabels,
        *,
        declared: DeclaredBots | None = None,
        votes: Votes | None = None,
        rules: Sequence[str] = (),
        crowd: ResidualTraffic | None = None,
        silent: int = 0,
        resolved: bool = False,
        method: Method | None = None,
    ) -> None:
        self.tables = tables
        self.read_counts: ReadCounts = tables.read_counts
        self.judgements = judgements
        self.campaigns: list[CampaignResult] = []
        self.containment: Containment | None = None
        self.density: list[Proposal] = []
        """Density windows that fit the log."""
        self.votes = votes
        self.rules = list(rules)
        """The rules about the shape of traffic, in words."""
        self.crowd = crowd
        """All who are not held to be crawlers or good bots, taken together."""
        self.resolved = resolved
        """Whether the DNS was asked about bots."""
        self.method = method
        """What was done by another method than our own, None for ours."""
        self.silent = silent
        """Addresses of bots that the DNS was asked about and gave no answer."""
        self.timing: dict[str, float] = {}
        """Seconds by what they went to."""
        self._declared = declared
        self._pages = tables.figures["pages"]
        self._first, self._last = tables.first, tables.last
        self._requests = tables.requests
        self._campaign_of: dict[str, str] = {}

    def join(self, campaigns: Sequence[CampaignResult]) -> None:
        """Set the campaigns."""
        self.campaigns = list(campaigns)
        self._campaign_of = {name: campaign.id for campaign in campaigns for name in campaign.members}

    @cached_property
    def ranked(self) -> NDArray[np.int64]:
        """The places of all sources: crawlers, good bots, unknown, people; each by requests."""
        rank = np.array([0, 3, 1, 2])[self.judgements.label]
        return np.lexsort((np.arange(len(rank)), -self.tables.requests, rank))

    def totals(self) -> dict[str, tuple[int, int]]:
        """Return sources and requests by label."""
        label = self.judgements.label
        sources = np.bincount(label, minlength=len(LABELS))
        requests = np.bincount(label, weights=self.tables.requests, minlength=len(LABELS)).astype(np.int64)
        return {name: (int(sources[k]), int(requests[k])) for k, name in enumerate(LABELS)}

    def kinds(self) -> dict[str, tuple[int, int]]:
        """Return sources and requests by what they do apart from reading pages, most requests first."""
        return _by_name(KINDS, self.judgements.activity, self._requests)

    def reasons(self) -> dict[str, tuple[int, int]]:
        """Return unknown sources and their requests by the reason why they are unknown, most requests first."""
        unknown = self.judgements.label == UNKNOWN
        return _by_name(REASONS, self.judgements.reason[unknown], self._requests[unknown])

    def listed(self, sure: float = SURE) -> NDArray[np.int64]:
        """
        Return the places of sources that may be blocked: crawlers on two grounds with a score of at least *sure*, but
        for bots that may be welcome.
        """
        ranked = self.ranked[(may_be_listed(self.judgements) & (self.judgements.score >= sure))[self.ranked]]
        return np.array([place for place in ranked.tolist() if not self.may_be_welcome(place)], np.int64)

    @property
    def sort(self) -> str:
        """A sentence that says what a source is; "" for the default."""
        by = self.tables.by
        if by in NAMED and not any(name.startswith(f"{by}:") for name in reversed(self.tables.sources)):
            return f"No line of this log names {'an' if by == 'account' else 'a'} {by}: sources are addresses."
        return _SORTS[by]

    @property
    def advice(self) -> str:
        """What to do if most of the log could not be read; else ""."""
        return advice_on(self.read_counts)

    @property
    def knows_agents(self) -> bool:
        """Whether user agents were looked at."""
        return self._declared is not None

    def bot(self, place: int) -> str:
        """Return the known bot that a source says it is, or ""."""
        return "" if self._declared is None else self._declared.bot(place)

    def may_be_welcome(self, place: int) -> bool:
        """Return whether a source claims to be a welcome bot and the claim is not known to be false."""
        return self._declared is not None and self._declared.may_be_welcome(place)

    def source(self, place: int) -> SourceResult:
        (one,) = self.sources_at([place])
        return one

    def sources_at(self, places: Sequence[int]) -> Iterator[SourceResult]:
        for begin in range(0, len(places), _AT_ONCE):
            chosen = places[begin : begin + _AT_ONCE]
            yield from map(self._source, chosen, self.judgements.evidence(np.array(chosen, np.int64)))

    def _source(self, place: int, evidence: list[Evidence]) -> SourceResult:
        tables, judgements = self.tables, self.judgements
        name = tables.sources[place]
        return SourceResult(
            name,
            int(self._requests[place]),
            LABELS[judgements.label[place]],
            round(float(judgements.score[place]), 4),
            evidence,
            self._campaign_of.get(name),
            float(self._first[place]),
            float(self._last[place]),
            int(self._pages[place]),
            self._declared.agent(place) if self._declared is not None else "",
            self._declared.bot(place) if self._declared is not None else "",
            "" if tables.by not in NAMED else tables.addresses[place],
            KINDS[judgements.activity[place]],
            REASONS[judgements.reason[place]],
        )

    def to_json(self, *, timing: bool = False) -> Iterator[str]:
        """Yield the report as JSON, in pieces."""
        counts = self.read_counts
        head: dict[str, Any] = {
            "lines": counts.lines, "parsed": counts.parsed, "bad": counts.bad, "from": iso(counts.first),
            "to": iso(counts.last), "format": ", ".join(counts.formats), "samples": counts.samples,
            "damage": counts.damage, "hosts": self.tables.hosts, "by": self.tables.by,
        }  # fmt: skip
        totals = {name: {"sources": s, "requests": r} for name, (s, r) in self.totals().items()}
        kinds = {name: {"sources": s, "requests": r} for name, (s, r) in self.kinds().items()}
        unknown = {name: {"sources": s, "requests": r} for name, (s, r) in self.reasons().items()}
        yield f'{{"log": {dump(head)},\n"totals": {dump(totals)},\n"kinds": {dump(kinds)},\n'
        method = {"name": "hedgerow"} if self.method is None else self.method.to_json()
        yield f'"method": {dump(method)},\n"unknown": {dump(unknown)},\n"sources": ['
        yield from self._lines()
        yield f'\n],\n"campaigns": {dump([_named(one) for one in self.campaigns])}'
        if self.crowd is not None:
            yield f',\n"crowd": {dump(_crowd(self.crowd))}'
        if self.containment is not None:
            yield f',\n"containment": {dump(_containment_json(self.containment, self.density))}'
        timings = {name: round(seconds, 3) for name, seconds in self.timing.items()} if timing else {}
        yield f',\n"timing": {dump(timings)}}}\n'

    def _lines(self) -> Iterator[str]:
        """Yield all sources as lines, some thousands at a time."""
        campaign_of = {name: dump(one.id) for one in self.campaigns for name in one.members}
        for begin in range(0, len(self.ranked), _AT_ONCE):
            some = self.ranked[begin : begin + _AT_ONCE]
            lines = _json_lines(some, self.tables, self.judgements, self._declared, campaign_of)
            yield ("," if begin else "") + "\n" + ",\n".join(lines)


def _by_name(names: Sequence[str], which: NDArray[np.int8], requests: NDArray[np.int64]) -> dict[str, tuple[int, int]]:
    """Return how many sources and requests each of *names* but the first has, most requests first."""
    sources = np.bincount(which, minlength=len(names)).tolist()
    made = np.bincount(which, weights=requests, minlength=len(names)).astype(np.int64).tolist()
    order = sorted(range(1, len(names)), key=lambda k: (-made[k], k))
    return {names[k]: (sources[k], made[k]) for k in order if sources[k]}


def _named(one: CampaignResult) -> dict[str, Any]:
    """Return a campaign with printable names of its members."""
    return {**msgspec.to_builtins(one), "members": [shown(name) for name in one.members]}


def _crowd(crowd: ResidualTraffic) -> dict[str, Any]:
    found = crowd.rhythm
    return {
        "sources": crowd.sources, "requests": crowd.requests, "days": found.days, "depth": round(found.depth, 4),
        "crawl": found.crawl, "text": crowd.text,
    }  # fmt: skip
