"""What is found in several ways is told once."""

from __future__ import annotations

from hedgerow.report.campaigns.search import _left
from hedgerow.report.campaigns.traffic_similarity import SimilarGroups


def company(*members: int) -> SimilarGroups:
    return SimilarGroups("company", members, 1.0, f"{len(members)} sources that are no people's: a reason.")


def test_a_synchronous_campaign_goes_to_one_company_and_no_source_is_in_two():
    synchronous = SimilarGroups("synchronous", (1, 2, 3, 4, 5, 6), 0.9, "6 sources in step.", ((2, 3600.0),))
    alone = SimilarGroups("synchronous", (20, 21, 22), 0.9, "3 sources in step.")
    before = [synchronous, alone]
    found = _left(before, [company(1, 2, 7, 8), company(3, 9, 10, 11), company(4, 5, 12), company(30, 31, 32)])
    assert before == [alone]
    assert [one.members for one in found] == [(1, 2, 3, 4, 5, 6, 7, 8), (9, 10, 11), (30, 31, 32)]
    assert found[0].text == "4 sources that are no people's: a reason. 6 sources in step."
    assert found[0].shifts == ((2, 3600.0),)
    assert found[1].text == "3 sources that are no people's: a reason."
