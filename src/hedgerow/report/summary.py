"""
Summary: what an operator needs to know first, in sentences, for the terminal and the page alike.

Who crawls, what it costs, what to do first, whom not to touch, and how certain all that is. `deeds` says in one
sentence what a source did.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from hedgerow.logs.formats import iso, readable
from hedgerow.report.activity import CONTRADICTION, KINDS, OWN, SWEEP
from hedgerow.report.label_rules import LEAST_GROUNDS
from hedgerow.report.result import Report
from hedgerow.report.source_labels import CRAWLER, GOOD_BOT

_HOUR = 3600
_MICROSECONDS = 1_000_000
_MOST_NAMED = 5
_MANY_ERRORS = 0.2
_ORDERED = 0.9
_LEAST_ORDERED = 20
_LEAST_PACE = 5
_LEAST_PAGES = 5
_BUSIEST = 10


class ReportSummary(NamedTuple):
    """Sentences: a *headline*, then lists by topic; a list without sentences is left out."""

    headline: str
    cost: list[str]
    first: list[str]
    spare: list[str]
    certainty: list[str]


def summary_of(report: Report) -> ReportSummary:
    return ReportSummary(_headline(report), _cost(report), _first(report), _spare(report), _certainty(report))


def share(part: float, whole: float) -> str:
    """
    A share in words; something is never rounded to nothing.

    >>> share(1, 2), share(1, 30), share(1, 5000), share(0, 5)
    ('50 %', '3.3 %', 'less than 0.1 %', '0 %')
    """
    value = 100 * part / max(whole, 1)
    if 0 < value < 0.1:  # noqa: PLR2004 - less than is shown
        return "less than 0.1 %"
    return f"{round(value, 0 if value >= 10 else 1):g} %"  # noqa: PLR2004 - two digits are enough


def counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _headline(report: Report) -> str:
    if not report.read_counts.parsed:
        return "Nothing could be read, so nothing can be said."
    totals = report.totals()
    requests = sum(count for _, count in totals.values())
    crawlers, made = totals["crawler"]
    people = f"People made {share(totals['person'][1], requests)}."
    if not crawlers:
        return f"No crawler was found. {people}"
    who = counted(crawlers, "crawler", "crawlers")
    return f"{who} made {share(made, requests)} of the requests. {people}"


def _cost(report: Report) -> list[str]:
    """Return what crawlers cost: of all requests, and of the hour in which the site was busiest."""
    totals = report.totals()
    requests = sum(count for _, count in totals.values())
    if not totals["crawler"][0]:
        return []
    tables = report.tables
    origin = int(tables.origin) // _HOUR * _HOUR
    found = tables.store.series(origin * _MICROSECONDS, _HOUR * _MICROSECONDS)
    bins, counts = found["bin"].astype(np.int64), found["n"].astype(np.int64)
    by_hour = np.bincount(bins, counts)
    peak = int(by_hour.argmax())
    mine = report.judgements.label[tables.places(found["source"])] == CRAWLER
    crawled = int(counts[mine & (bins == peak)].sum())
    at = (iso(float(origin + peak * _HOUR)) or "?")[:16].replace("T", " ")
    figures, crawlers = tables.figures, report.judgements.label == CRAWLER
    whole = int(by_hour[peak])
    sentences = [
        f"Crawlers made {totals['crawler'][1]:,} of {requests:,} requests.",
        f"In the busiest hour ({at} UTC, {whole:,} requests) {share(crawled, whole)} were theirs.",
    ]
    pages, theirs = int(figures["pages"].sum()), int(figures["pages"][crawlers].sum())
    if pages:
        sentences.append(f"Of all pages that the site served, {share(theirs, pages)} were for them.")
    return sentences


def _first(report: Report) -> list[str]:
    """Return what to do, the most useful first."""
    requests = int(report.tables.requests.sum())
    listed, sentences = report.listed(), []
    if len(listed):
        top = int(listed[0])
        few = listed[:_BUSIEST]
        made = int(report.tables.requests[few].sum())
        alone = share(int(report.tables.requests[top]), requests)
        name = readable(report.tables.sources[top])
        sentences.append(f"Block {name} first: it made {alone} of the requests. It {deeds(report, top)}.")
        if len(few) > 1:
            sentences.append(
                f"The {len(few)} busiest that may be blocked made {share(made, requests)}. --export writes all "
                f"{len(listed):,} as a list for your server, --apply puts them on the black list of a running Hedgerow."
            )
    crawlers = np.flatnonzero(report.judgements.label == CRAWLER)
    claimed = sum(report.may_be_welcome(place) for place in crawlers.tolist())
    if claimed:
        who = counted(claimed, "source says it is", "sources say they are")
        sentences.append(
            f"{who} a search engine or another welcome bot, and nobody has checked. --resolve asks the DNS."
        )
    if report.campaigns:
        members = sum(len(campaign.members) for campaign in report.campaigns)
        many = counted(len(report.campaigns), "group", "groups")
        sentences.append(
            f"{counted(members, 'source works', 'sources work')} together in {many}: welcome or block a whole group."
        )
    if report.crowd is not None and report.crowd.rhythm.crawl:
        sentences.append(report.crowd.text)
    return sentences


def _spare(report: Report) -> list[str]:
    """Return whom not to touch."""
    label, sources = report.judgements.label, report.tables.sources
    totals, sentences = report.totals(), []
    if totals["person"][0]:
        sentences.append(f"{counted(totals['person'][0], 'source looks', 'sources look')} like people.")
    own = np.flatnonzero(report.judgements.activity == OWN).tolist()
    if own:
        named = ", ".join(readable(sources[place]) for place in own[:_MOST_NAMED])
        more = f" and {len(own) - _MOST_NAMED:,} more" if own[_MOST_NAMED:] else ""
        sentences.append(f"The site itself: {named}{more}. It is never listed.")
    bots = [one for one in np.flatnonzero(label == GOOD_BOT).tolist() if one not in set(own)]
    names = Counter(filter(None, map(report.bot, bots)))
    if names:
        told = ", ".join(f"{name} ({count:,})" for name, count in names.most_common(_MOST_NAMED))
        how = "by published address ranges or by the DNS" if report.resolved else "by published address ranges"
        sentences.append(f"Verified bots, {how}: {told}.")
    elif report.knows_agents and not own:
        sentences.append("No bot was verified. --resolve verifies those that name themselves.")
    unknown, made = totals["unknown"]
    if unknown:
        whole = int(report.tables.requests.sum())
        sentences.append(
            f"{counted(unknown, 'source is', 'sources are')} unknown ({share(made, whole)} of the requests)."
        )
    return sentences


def _certainty(report: Report) -> list[str]:
    """Return how certain the labels are."""
    judged = report.judgements
    crawlers = judged.label == CRAWLER
    if not crawlers.any():
        return []
    enough = int((crawlers & (judged.grounds.sum(1) >= LEAST_GROUNDS)).sum())
    who = counted(int(crawlers.sum()), "crawler has", "crawlers have")
    sentences = [f"{enough:,} of {who} at least two independent kinds of evidence. Only those can be listed."]
    odd = np.flatnonzero(judged.activity == CONTRADICTION)
    if len(odd):
        top = int(odd[np.argmax(report.tables.requests[odd])])
        what = "is called a crawler" if judged.label[top] == CRAWLER else "is unknown"
        sentences.append(
            f"{counted(len(odd), 'source contradicts itself', 'sources contradict themselves')}: images and referrers "
            "as a person's, and a pace, an order or requests for robots.txt that no person has. The busiest, "
            f"{readable(report.tables.sources[top])}, {deeds(report, top)}; it {what}."
        )
    return sentences


def deeds(report: Report, place: int) -> str:
    """Return what a source did, as the rest of a sentence that begins with it."""
    figures, judged = report.tables.figures, report.judgements
    names = (
        "requests", "pages", "asked", "faults", "rising", "falling", "minutes", "assets", "unreferred", "robots",
    )  # fmt: skip
    one = {name: int(figures[name][place]) for name in names}
    kind = KINDS[judged.activity[place]]
    requests = counted(one["requests"], "request", "requests")
    if kind and judged.activity[place] != CONTRADICTION:
        if kind == KINDS[SWEEP]:
            return f"made {requests} for the same page as very many others"
        return f"made {requests}, mostly {kind}" if kind != KINDS[OWN] else "is the site itself"
    if not one["pages"]:
        return f"made {requests} and opened no page"
    pages = counted(one["pages"], "page", "pages")
    steps = one["rising"] + one["falling"]
    in_order = steps >= _LEAST_ORDERED and max(one["rising"], one["falling"]) >= _ORDERED * steps
    parts = [f"opened {pages}{' in alphabetical order' if in_order else ''}"]
    if one["pages"] >= _LEAST_PACE * max(one["minutes"], 1):
        parts[0] += f" within {counted(max(one['minutes'], 1), 'minute', 'minutes')}"
    if one["faults"] >= _MANY_ERRORS * max(one["asked"], 1):
        parts.append(f"{share(one['faults'], one['asked'])} missing")
    if one["pages"] >= _LEAST_PAGES and not one["assets"]:
        parts.append("never with an image or style")
    if one["pages"] >= _LEAST_PAGES and one["unreferred"] == one["pages"]:
        parts.append("never by a link")
    if one["robots"] > 1:
        parts.append(f"robots.txt {one['robots']:,} times")
    return ", ".join(parts)
