"""Sources all over the world that play one script."""

import numpy as np
import pytest

from hedgerow.report.campaigns.search import _joined
from hedgerow.report.campaigns.shared_requests import find_shared_errors
from hedgerow.report.campaigns.traffic_similarity import SimilarGroups

DAY = 86_400.0


def played(script, sources, visits=1, first=0):
    """Requests of so many *sources*, each of whom plays the *script* (page and answer) so many times."""
    return [
        (source, 1000.0 * source + DAY * visit + 2 * nth, page, answer)
        for source in range(first, first + sources)
        for visit in range(visits)
        for nth, (page, answer) in enumerate(script)
    ]


def found_in(*parts):
    rows = sorted(row for part in parts for row in part)
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return find_shared_errors(*columns)


def test_the_same_things_in_the_same_order_with_the_same_errors():
    log_in = [(7, 403)] * 4
    found = found_in(played(log_in, 5), played([(7, 403)] * 3, 2, first=10), played([(1, 200), (2, 200)], 9, first=20))
    assert [(one.kind, one.members) for one in found] == [("same script", (0, 1, 2, 3, 4))]
    assert found[0].text == "5 sources that do the same 4 things each time they come, and are told the same errors."


def test_order_and_answers_tell_scripts_apart():
    scripts_of = [[(1, 200), (2, 404)], [(2, 404), (1, 200)], [(1, 404), (2, 404)], [(1, 200), (2, 403)]]
    found = found_in(*(played(script, 2, first=10 * n) for n, script in enumerate(scripts_of)))
    assert found == []


@pytest.mark.parametrize(("visits", "members"), [(1, 0), (2, 6)])
def test_a_dead_link_is_no_script(visits, members):
    found = found_in(played([(3, 404)], 6, visits))
    assert sum(len(one.members) for one in found) == members


def test_who_does_other_things_too_does_not_play():
    chance = np.random.default_rng(2)
    others = [(source, DAY * k, int(chance.integers(10, 99)), 200) for source in range(3) for k in range(4, 9)]
    assert found_in(played([(5, 404), (6, 404)], 3, visits=2), others) == []
    assert find_shared_errors(*[np.zeros(0, int)] * 4) == []


def test_a_campaign_most_of_whose_members_play_joins():
    company = [SimilarGroups("company", (0, 1, 2), 1.0, "a"), SimilarGroups("company", (5, 6, 7, 8), 1.0, "b")]
    one = SimilarGroups("same script", (0, 1, 3, 4, 5), 1.0, "5 sources that play.")
    found = _joined(company, [one])
    assert [(other.kind, other.members) for other in found] == [
        ("company", (5, 6, 7, 8)),
        ("same script", (0, 1, 2, 3, 4)),
    ]
    assert found[1].text == "5 sources that play."
    few = SimilarGroups("same script", (5, 9, 10), 1.0, "3 sources that play.")
    assert _joined(company, [few]) == company
