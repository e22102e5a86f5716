"""Blocklist: the crawlers of a report as entries of the black list, to export or to apply."""

from __future__ import annotations

from collections.abc import Iterator

from hedgerow.lists.model import OWN_AUTHOR, Listing, parse_subject
from hedgerow.report.result import SURE, Report

_LONGEST_REASON = 200


def listings(report: Report, *, since: float, until: float, sure: float = SURE) -> Iterator[Listing]:
    """
    Yield an entry for each crawler with a score of at least *sure* and two grounds, valid from *since* to *until* (0:
    for ever).

    A source that is no address, network or account cannot be listed. A bot that is welcome once verified is left out
    unless its claim is known to be false: a claim that nobody checked is not a lie.
    """
    for source in report.sources_at(report.listed(sure).tolist()):
        try:
            subject = parse_subject(source.source).text
        except ValueError:
            continue
        reason = " ".join(evidence.text for evidence in source.evidence[:2])[:_LONGEST_REASON]
        yield Listing("black", subject, reason, OWN_AUTHOR, since, until)
