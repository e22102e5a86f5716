"""Listing: the crawlers of a report as entries of the black list, to be exported or applied."""

from __future__ import annotations

from collections.abc import Iterator

from hedgerow.lists.model import Listing, parse_subject
from hedgerow.report.result import Report
from hedgerow.report.source_labels import CRAWLER

AUTHOR = "hedgerow report"
SURE = 0.9
"""The score from which on a crawler is listed."""
_LONGEST_REASON = 200


def listings(report: Report, *, since: float, until: float, sure: float = SURE) -> Iterator[Listing]:
    """
    An entry for each crawler with a score of at least *sure*, from *since* to *until* (0: for good).

    What is no address, no network and no account cannot be listed and is left out. A bot that the table of known bots
    welcomes once it is verified is left out, too, unless its claim is known to be false: not looked is not proven.
    """
    judgements = report.judgements
    ranked = report.ranked
    crawlers = ranked[(judgements.label[ranked] == CRAWLER) & (judgements.score[ranked] >= sure)].tolist()
    for source in report.sources_at([place for place in crawlers if not report.may_be_welcome(place)]):
        try:
            subject = parse_subject(source.source).text
        except ValueError:
            continue
        reason = " ".join(evidence.text for evidence in source.evidence[:2])[:_LONGEST_REASON]
        yield Listing("black", subject, reason, AUTHOR, since, until)
