"""
Result: the report as a whole, as arrays; and as JSON, source by source.

The same log gives the same bytes. How long it took is no part of that: it stands under "timing", and only where it was
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hedgerow.core.decision import Evidence
from hedgerow.logs.formats import iso
from hedgerow.logs.reader import ReadCounts
from hedgerow.report.containment import Containment, to_json
from hedgerow.report.declared_bots import DeclaredBots
from hedgerow.report.forked_writer import ForkedWriter
from hedgerow.report.heuristics import Votes
from hedgerow.report.json_rows import NAMED, campaign, dump, halves, shown
from hedgerow.report.rate_limit_proposal import Proposal
from hedgerow.report.residual_traffic import ResidualTraffic
from hedgerow.report.source_labels import LABELS, SourceLabels
from hedgerow.report.tables.source_tables import Tables

_SORTS = {
    "visitor": "", "address": "Sources are addresses.", "prefix": "Sources are IPv4 addresses and IPv6 /64.",
    "network": "Sources are networks: IPv4 /24 and IPv6 /48.",
    "account": "Sources are accounts, and addresses where a line names none.",
    "session": "Sources are sessions, and addresses where a line names none.",
}  # fmt: skip

_UTF16 = ("\xff\xfe", "\xfe\xff")
_ADVICE = {
    "unknown": "Most lines are in no format that is known: give the server's own log_format or LogFormat by --format.",
    "pattern": "Most lines are not in the format that was given: see --format, or [logs] format in the settings.",
    "json": "Most lines name no client or no time that is known: say what they are called by [logs] fields.",
    "parquet": "Most rows name no client or no time that is known: say what they are called by [logs] fields.",
    "utf-16": "This is UTF-16, which no server writes: make it plain text again, by iconv -f UTF-16 -t UTF-8.",
}

_AT_ONCE = 2048
_MANY = 5000
"""Sources from which on it is worth another process to tell of them."""


class SourceResult(msgspec.Struct, frozen=True):
    """One source as the report has it; *address* is the first of one that is told by its name."""

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


class CampaignResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sources that belong together, and a sentence why; *shifts* as in `campaigns.similarity.Found`."""

    id: str
    kind: str
    members: list[str]
    similarity: float
    text: str
    shifts: dict[str, float] = {}


class Report:
    """
    What a log tells: *tally*, *tables*, *judgements*, *campaigns*.

    `source` gives one of the sources by its place, `sources_at` many; `ranked` are all places, those with the most
    crawled requests first.
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
    ) -> None:
        self.tables = tables
        self.tally: ReadCounts = tables.tally
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
        self.silent = silent
        """Addresses of bots that the DNS was asked about and gave no answer."""
        self.timing: dict[str, float] = {}
        """Seconds by what they went to."""
        self._declared = declared
        self._pages = tables.figures["pages"]
        self._first, self._last = tables.first, tables.last
        self._requests = tables.requests
        self._campaign_of: dict[str, str] = {}
        self._told: list[bytes] | None = None

    def join(self, campaigns: Sequence[CampaignResult]) -> None:
        """Say which sources belong together."""
        self.campaigns = list(campaigns)
        self._campaign_of = {name: campaign.id for campaign in campaigns for name in campaign.members}

    @cached_property
    def ranked(self) -> NDArray[np.int64]:
        """The places of all sources: crawlers first, then good bots, unknown and people, by requests."""
        rank = np.array([0, 3, 1, 2])[self.judgements.label]
        return np.lexsort((np.arange(len(rank)), -self.tables.requests, rank))

    def totals(self) -> dict[str, tuple[int, int]]:
        """Sources and requests by label."""
        label = self.judgements.label
        sources = np.bincount(label, minlength=len(LABELS))
        requests = np.bincount(label, weights=self.tables.requests, minlength=len(LABELS)).astype(np.int64)
        return {name: (int(sources[k]), int(requests[k])) for k, name in enumerate(LABELS)}

    @property
    def sort(self) -> str:
        """What sources are, in a sentence; "" where that is as usual."""
        by = self.tables.by
        if by in NAMED and not any(name.startswith(f"{by}:") for name in reversed(self.tables.sources)):
            return f"No line of this log names {'an' if by == 'account' else 'a'} {by}: sources are addresses."
        return _SORTS[by]

    @property
    def advice(self) -> str:
        """What to do where most of the log could not be read; "" where that is not so."""
        tally = self.tally
        if 2 * tally.bad <= tally.lines:
            return ""
        if tally.samples[0].startswith(_UTF16):
            return _ADVICE["utf-16"]
        return next((_ADVICE[name] for name in tally.formats if name in _ADVICE), _ADVICE["unknown"])

    def may_be_welcome(self, place: int) -> bool:
        """Whether a source says it is a bot that is welcome, and nobody has shown that it lies."""
        return self._declared is not None and self._declared.may_be_welcome(place)

    def source(self, place: int) -> SourceResult:
        (one,) = self.sources_at([place])
        return one

    def sources_at(self, places: Sequence[int]) -> Iterator[SourceResult]:
        """The sources at *places*, which may be very many."""
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
        )

    def to_json(self, *, timing: bool = False) -> Iterator[str]:
        """The report as JSON, in pieces."""
        tally = self.tally
        head: dict[str, Any] = {
            "lines": tally.lines, "parsed": tally.parsed, "bad": tally.bad, "from": iso(tally.first),
            "to": iso(tally.last), "format": ", ".join(tally.formats), "samples": tally.samples,
            "damage": tally.damage, "hosts": self.tables.hosts, "by": self.tables.by,
        }  # fmt: skip
        totals = {name: {"sources": s, "requests": r} for name, (s, r) in self.totals().items()}
        yield f'{{"log": {dump(head)},\n"totals": {dump(totals)},\n"sources": ['
        yield from self._told_before() if self._told else self._told_now()
        yield f'\n],\n"campaigns": {dump([_named(one) for one in self.campaigns])}'
        if self.crowd is not None:
            yield f',\n"crowd": {dump(_crowd(self.crowd))}'
        if self.containment is not None:
            yield f',\n"containment": {dump(to_json(self.containment, self.density))}'
        told = {name: round(seconds, 3) for name, seconds in self.timing.items()} if timing else {}
        yield f',\n"timing": {dump(told)}}}\n'

    @contextmanager
    def telling_beside(self) -> Iterator[None]:
        """Meanwhile another process tells of the sources, but for their campaigns, if they are many."""
        if len(self.ranked) < _MANY:
            yield
            return
        with ForkedWriter("\n".join(chain(*block)) for block in self._halves()) as beside:
            yield
            self._told = beside.pieces()

    def _told_before(self) -> Iterator[str]:
        """What was told of all sources beside, with their campaigns; nothing where nothing was."""
        blocks, self._told = self._told or [], None
        blocks.reverse()
        both = (blocks.pop().decode().split("\n") for _ in range(len(blocks)))
        return self._lines_of((halves[: len(halves) // 2], halves[len(halves) // 2 :]) for halves in both)

    def _told_now(self) -> Iterator[str]:
        """All sources, a line each."""
        return self._lines_of(self._halves())

    def _halves(self) -> Iterator[tuple[list[str], list[str]]]:
        """What is told of all sources, but for their campaigns: two halves of each, some thousands at a time."""
        ranked = self.ranked
        for begin in range(0, len(ranked), _AT_ONCE):
            yield halves(ranked[begin : begin + _AT_ONCE], self.tables, self.judgements, self._declared)

    def _lines_of(self, blocks: Iterable[tuple[list[str], list[str]]]) -> Iterator[str]:
        """Of all halves the lines with their campaigns."""
        names, ranked, told = self.tables.sources, self.ranked, 0
        campaign_of: Callable[[str], str | None] = self._campaign_of.get
        said = {None: campaign(None)} | {one.id: campaign(one.id) for one in self.campaigns}
        for before, behind in blocks:
            # Put together as a whole: there are very many.
            count = len(before)
            pieces = [",\n"] * (4 * count)
            pieces[1::4] = before
            pieces[2::4] = [said[campaign_of(names[place])] for place in ranked[told : told + count].tolist()]
            pieces[3::4] = behind
            pieces[0] = ",\n" if told else "\n"
            told += count
            yield "".join(pieces)


def _named(one: CampaignResult) -> dict[str, Any]:
    """A campaign with its members named as the sources are."""
    return {**msgspec.to_builtins(one), "members": [shown(name) for name in one.members]}


def _crowd(crowd: ResidualTraffic) -> dict[str, Any]:
    found = crowd.rhythm
    return {
        "sources": crowd.sources, "requests": crowd.requests, "days": found.days, "depth": round(found.depth, 4),
        "crawl": found.crawl, "text": crowd.text,
    }  # fmt: skip
