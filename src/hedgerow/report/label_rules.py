"""
Label rules: nobody is called a crawler on one ground alone, and nobody who is busy stays unknown.

A ground is a kind of evidence that is independent of the others. That somebody loads no images and sends no referrers
is one ground, however many opinions notice it: privacy settings, caches and other hosts have the same effect. So a
source with a crawler's score needs two grounds, or declares itself a program, or does what no reader does (`activity`).

Members of a campaign share its label, once enough of them are known to be crawlers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hedgerow.report.activity import ABUSE, CONTRADICTION, FEEDS, HEADS, OWN, PARTS, SWEEP, Activity
from hedgerow.report.heuristics import NAMES, YES, Votes
from hedgerow.report.live_opinions import DetectorOpinion
from hedgerow.report.source_labels import (
    CRAWLER,
    FALSE,
    FEW,
    GOOD_BOT,
    LEAST_PAGES,
    NO_PAGES,
    NOTHING,
    ONE_GROUND,
    PERSON,
    PROGRAM,
    TOO_FAST,
    UNKNOWN,
    Findings,
    Opinion,
    SourceLabels,
)
from hedgerow.report.tables.figures import Figures

Flags = NDArray[np.bool_]

GROUNDS = ("declared", "activity", "rate", "requests", "browsing", "shape", "order", "campaign")
"""
What a source declares, or that its user agent is no browser's; abuse; its pace; errors, robots.txt again and again,
headers only, alphabetic order, hardly any page twice; assets and referrers; the shape of its traffic; the order in
which it follows links; others that do the same.
"""

LEAST_GROUNDS = 2
_NO_BROWSER = frozenset({"no-agent", "odd-agent", "automation", "program"})
"""Evidence about headers: the user agent is none that a browser has."""

_DECLARED, _ACTIVITY, _RATE, _REQUESTS, _BROWSING, _SHAPE, _ORDER, _CAMPAIGN = range(len(GROUNDS))
_OF_PROGRAMS = [_DECLARED, _ACTIVITY, _RATE, _REQUESTS]
"""What no browser does, whatever it leaves out."""

_LEAST_ROBOTS = 2
_LEAST_HEADS = 3
_MANY_PAGES = 30
"""Page visits from which on people come back to a page now and then."""

_LINKED = 0.3
_SURE = 0.9
"""The score of a crawler that is labelled on one ground."""

_FEWEST_PEOPLE, _HABIT_OF_PEOPLE = 10, 0.1
"""How many people a log must have to show what they do, and which share of them may have a habit of programs."""

_EVEN = 0.5
_LEAST_BROUGHT = 3
_CONTRADICTED = 0.9
_FEWEST_CRAWLERS = 2
_CRAWLERS = 0.25
_VERY_MANY = 50
_NEARLY_ALL = 0.9
_COMPANY = "company"


def grounds_of(
    figures: Figures,
    opinions: Mapping[str, Opinion],
    votes: Votes,
    activity: Activity,
    declared: NDArray[np.int8] | None,
) -> Flags:
    """Return which grounds there are to call each source a crawler, with columns as in `GROUNDS`."""
    found = np.zeros((len(figures.sources), len(GROUNDS)), np.bool_)
    if declared is not None:
        found[:, _DECLARED] = (declared == PROGRAM) | (declared == FALSE)
        headers = opinions.get("headers")
        if isinstance(headers, DetectorOpinion):
            found[:, _DECLARED] |= headers.says(_NO_BROWSER)
    found[:, _ACTIVITY] = activity.abuse
    found[:, _RATE] = activity.fast
    if "density" in opinions:
        found[:, _RATE] |= opinions["density"].probability > _EVEN
    found[:, _REQUESTS] = (
        (votes.votes[:, NAMES.index("errors")] == YES)
        | (figures["robots"] >= _LEAST_ROBOTS)
        | ((figures["heads"] >= _LEAST_HEADS) & (10 * figures["heads"] >= figures["requests"]))
        | activity.ordered
        | ((figures["close_pages"] >= _MANY_PAGES) & (20 * figures["different"] >= 19 * figures["close_pages"]))
    )
    found[:, _BROWSING] = (opinions["manner"].probability > _EVEN) & (figures["pages"] > 1)
    # Most of a shape is made by images. Without them it says no more than that there are none.
    found[:, _SHAPE] = opinions["shape"].speaks & ((figures["assets"] >= figures["pages"]) | ~found[:, _BROWSING])
    # Without referrers nothing is known of the order in which links were followed.
    linked = figures["own"] >= _LINKED * np.maximum(figures["pages"], 1)
    found[:, _ORDER] = linked & opinions["path"].speaks & opinions["window"].speaks
    return found


def browses(figures: Figures, score: NDArray[np.float64]) -> Flags:
    """
    Return which sources load a page as a browser does: with its icon, or with images and styles that name the page.

    One of these is enough for a source that says where it comes from, else it takes three.
    """
    least = np.where(figures["own"] + figures["foreign"] > 0, 1, _LEAST_BROUGHT)
    brought = (score < _EVEN) & (figures["brought"] >= least)
    return np.asarray((figures["pages"] > 0) & (brought | (figures["icons"] > 0)), np.bool_)


def settle(
    labels: SourceLabels,
    figures: Figures,
    activity: Activity,
    grounds: Flags,
    declared: NDArray[np.int8] | None,
    own: tuple[Flags, Flags],
) -> None:
    """
    Set the labels, activities and reasons of all sources.

    *own*: which sources are the site itself, by their address and by their user agent.
    """
    label, kind, pages = labels.label, activity.kind, figures["pages"]
    labels.activity, labels.grounds = kind, grounds
    undeclared = np.ones(len(label), np.bool_) if declared is None else declared == NOTHING
    like_one = browses(figures, labels.score)
    program = grounds[:, _OF_PROGRAMS].any(1)
    doubtful = undeclared & (label == CRAWLER) & ((grounds.sum(1) < LEAST_GROUNDS) | (like_one & ~program))
    label[doubtful] = UNKNOWN
    labels.reason[doubtful] = ONE_GROUND
    label[undeclared & (label == UNKNOWN) & like_one & ~program] = PERSON
    # Two grounds are enough, however few pages there are.
    label[(label == UNKNOWN) & (labels.score >= _EVEN) & (grounds.sum(1) >= LEAST_GROUNDS) & ~like_one] = CRAWLER
    if declared is not None:
        # Secure pages that show an image of this site name no referrer. Their browsers have the user agent of one.
        kind[(label == UNKNOWN) & ~program & activity.few_images] = PARTS
    label[undeclared & (label == UNKNOWN) & (kind == PARTS)] = PERSON
    label[(label == UNKNOWN) & (activity.programs | (grounds[:, _DECLARED] & ~like_one))] = CRAWLER
    label[undeclared & activity.abuse] = CRAWLER
    _contradict(labels, activity, grounds)
    by_address, by_agent = own
    itself = by_address | (by_agent & ~activity.abuse & ~grounds[:, _RATE])
    label[itself] = GOOD_BOT
    kind[itself] = OWN
    labels.reason[label != UNKNOWN] = 0
    few = (label == UNKNOWN) & (labels.reason == 0)
    labels.reason[few] = np.where((pages[few] == 0) & (figures["requests"][few] >= LEAST_PAGES), NO_PAGES, FEW)


def _contradict(labels: SourceLabels, activity: Activity, grounds: Flags) -> None:
    """
    Judge people again whose pace or order is not a person's, and those that ask for robots.txt as crawlers do.

    Many people may share an address, so the pace alone only makes a source unknown, unless it is beyond that of many.
    Crawlers that run a browser load images and send referrers. Their score stays too low for a list.
    """
    person, listed = labels.label == PERSON, activity.ordered & grounds[:, _REQUESTS]
    fast = person & (activity.fast | listed)
    sure = person & (activity.wild | (activity.fast & grounds[:, _REQUESTS]) | (listed & (grounds.sum(1) > 1)))
    labels.label[fast] = UNKNOWN
    labels.reason[fast] = TOO_FAST
    labels.label[sure] = CRAWLER
    labels.score[sure] = np.maximum(labels.score[sure], _CONTRADICTED)
    careful = person & activity.careful & ~sure & ~fast
    labels.label[careful] = CRAWLER
    labels.score[careful] = np.maximum(labels.score[careful], _EVEN)
    activity.kind[fast | sure | careful] = CONTRADICTION


def may_be_listed(labels: SourceLabels) -> Flags:
    """
    Return which sources may be on a list of crawlers: on two grounds at least.

    Feeds are there for programs, and who watches a site from outside is usually asked to.
    """
    harmless = np.isin(labels.activity, (FEEDS, HEADS, OWN)) & ~labels.grounds[:, _RATE]
    return np.asarray((labels.label == CRAWLER) & (labels.grounds.sum(1) >= LEAST_GROUNDS) & ~harmless, np.bool_)


def label_by_habits(labels: SourceLabels, habits: Flags, figures: Figures) -> None:
    """
    Label sources as crawlers that are unknown because only their browsing speaks for one, if they have one of *habits*.

    They need enough pages to be judged, and must not load icons or the images of their pages. A habit counts only where
    hardly any of the log's own people has it: behind a cache, pages seem to be named that nobody asked for. Sources
    that look like people, but do what no browser does, are not counted as people here: crawlers that load images would
    make their own habits usual. With few people in a log nothing is known of that. A habit is no second ground: such a
    source is not listed, and no campaign inherits its label.
    """
    judged = figures["pages"] >= LEAST_PAGES
    people = judged & (labels.label == PERSON) & ~labels.grounds[:, _OF_PROGRAMS].any(1)
    if np.count_nonzero(people) < _FEWEST_PEOPLE:
        return
    rare = habits[people].mean(0) <= _HABIT_OF_PEOPLE
    alone = (labels.label == UNKNOWN) & (labels.reason == ONE_GROUND) & labels.grounds[:, _BROWSING]
    bare = judged & (figures["brought"] < _LEAST_BROUGHT) & (figures["icons"] == 0)
    found = bare & alone & (labels.score >= _SURE) & (habits & rare).any(1)
    labels.label[found] = CRAWLER
    labels.reason[found] = 0


class CampaignOpinion:
    """What is known of a source because it belongs to a campaign of crawlers; filled in by `inherit`."""

    detector, codes = "campaign", ("campaign-member",)

    def __init__(self, size: int) -> None:
        self.probability: NDArray[np.float64] = np.full(size, np.nan)
        self.speaks: Flags = np.zeros(size, np.bool_)
        self.texts: dict[int, str] = {}

    def evidence(self, some: NDArray[np.int64]) -> Findings:
        texts = [self.texts[place] for place in some.tolist()]
        return Findings(np.arange(len(some)), np.zeros(len(some), np.int64), np.full(len(some), _EVEN), texts)


def inherit(
    labels: SourceLabels,
    campaigns: Sequence[tuple[str, str, NDArray[np.int64]]],
    opinion: CampaignOpinion,
    browsing: NDArray[np.float64],
) -> None:
    """
    Give the members of *campaigns* (identifier, kind, places of the members) the label of their campaign.

    *browsing* is how probably each source is a crawler by its browsing features.

    Where members do the very same, one known crawler is enough. Where they share a network or a user agent, a quarter
    of them must be known, because others may share these as well; of very many, two. Very many sources none of which is
    known, and none of which loads a page as a browser does, are crawlers together. A sweep is known by all its sources
    together, so a single one of them says nothing about the other members.
    """
    for name, kind, members in campaigns:
        crawlers = members[(labels.label[members] == CRAWLER) & (labels.activity[members] != SWEEP)]
        many = len(members) >= _VERY_MANY
        least = max(_FEWEST_CRAWLERS, 0 if many else _CRAWLERS * len(members)) if kind == _COMPANY else 1
        alike = many and np.mean(browsing[members] > _EVEN) >= _NEARLY_ALL
        if len(crawlers) < least and not alike:
            continue
        labels.grounds[members, _CAMPAIGN] = True
        opinion.speaks[members] = True
        opinion.texts |= dict.fromkeys(members.tolist(), f"It belongs to campaign {name}, which is of crawlers.")
        heirs = members[labels.label[members] == UNKNOWN]
        labels.label[heirs] = CRAWLER
        labels.reason[heirs] = 0
        labels.score[heirs] = np.maximum(
            labels.score[heirs], float(np.median(labels.score[crawlers])) if len(crawlers) else _EVEN
        )
        # Those of a botnet do what the others do, if less of it.
        kinds = labels.activity[crawlers]
        abuse = np.bincount(kinds[np.isin(kinds, ABUSE)], minlength=1)
        if 2 * abuse.sum() > len(crawlers):
            labels.activity[heirs] = int(np.argmax(abuse))
