"""Header anomalies: what counts, how much it weighs together, and when it is a disguise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.decision import Evidence
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Marker, Visit
from hedgerow.detectors.header_anomalies import CODES, HeaderAnomalyDetector, judge_source
from hedgerow.markers.token import NOBODY, visitor_digest
from hedgerow.settings import Settings
from hedgerow.web.gate import build_policy
from request.test_header_anomalies import CHROME, OVER_HTTPS, anomalies, without

ME = "192.0.2.1"


def evidence(*, cookies: bool = True, **fields) -> list[Evidence]:
    visit = Visit(0.0, ME, ME, ME, "GET", **{"target": "/x", **fields})
    return list(HeaderAnomalyDetector(cookies=cookies)(visit, StateReply(None, ())))


def judged(**fields) -> list[str]:
    return [e.code for e in evidence(**fields)]


def weight_of(found: list[Evidence], group: str) -> float:
    return sum(e.weight for e in found if e.detector == group)


def test_all_signs_together_weigh_at_most_six_tenths_and_do_not_decide():
    visit = Visit(0.0, ME, ME, ME, "GET", "/x", anomalies=tuple(CODES))
    found = evidence(anomalies=tuple(CODES))
    assert sum(code.weight for code in CODES.values()) > 1.5
    assert weight_of(found, "headers") == pytest.approx(0.6)
    decision, block = build_policy(Settings()).decide(visit, StateReply(None, ()), found)
    assert (decision.action, block) == ("pass", None)


@given(st.lists(st.sampled_from(sorted(CODES)), unique=True))
def test_any_combination_of_signs_weighs_at_most_six_tenths(codes):
    found = evidence(anomalies=tuple(codes), origin="same", cookies=False)
    assert weight_of(found, "headers") <= 0.6 + 1e-9
    if sum(CODES[code].weight for code in codes) <= 0.6:
        assert {e.code for e in found} - {"disguised"} == set(codes), "below the cap everything is said"


def test_only_pages_count():
    for kind in ("call", "asset", "prefetch"):
        assert judged(kind=kind, anomalies=("no-agent",)) == []
    assert judged(anomalies=("no-agent",)) == ["no-agent", "no-referrer"]


def test_a_missing_referrer_is_nothing_by_itself():
    assert judged() == []
    assert judged(anomalies=("program",), origin="same") == ["program"]
    assert judged(anomalies=("program",), target="/") == ["program"]


def test_an_honest_bot_need_not_look_like_a_browser():
    for proof in ("pending", "verified"):
        assert judged(anomalies=("no-language", "no-accept"), claim="Googlebot", proof=proof) == []
    assert judged(anomalies=("no-language",), claim="Slackbot", proof="unprovable", origin="same") == ["no-language"]


def test_a_refused_cookie_counts_only_for_a_link_that_came_with_one():
    mine = Marker("page", visitor_digest(ME), bytes(6), "/x")
    assert judged(marker=mine) == ["cookie-refused"]
    assert judged(marker=mine, cookies=False) == []
    assert judged(marker=mine, linked=(visitor_digest(ME),)) == []
    assert judged(marker=Marker("page", NOBODY, bytes(6), "/x")) == [], "a link for nobody in particular"
    assert judged(marker=Marker("page", visitor_digest("192.0.2.2"), bytes(6), "/x")) == []
    assert judged(marker=Marker("trap", visitor_digest(ME), bytes(6), "/x")) == []


def test_a_disguise_is_several_contradictions_at_once():
    bare = {"host": "a", "user-agent": CHROME, "accept": "*/*"}
    assert "disguised" in judged(anomalies=anomalies(bare))
    for name in ("accept-encoding", "accept-language", "sec-ch-ua", "sec-fetch-mode"):
        assert "disguised" not in judged(anomalies=anomalies(without("chrome", name))), name
    switched = {**OVER_HTTPS["firefox"], "user-agent": CHROME}
    assert "disguised" not in judged(anomalies=anomalies(switched)), "an extension that changes the user agent"
    assert "disguised" not in judged(
        anomalies=anomalies({**OVER_HTTPS["chrome"], "user-agent": OVER_HTTPS["firefox"]["user-agent"]})
    )
    assert judged(anomalies=("automation",), origin="same") == ["automation"], "an automated browser that says so"


def test_single_signs_weigh_little():
    for code in CODES.values():
        assert 0 < code.weight <= 0.3
        if not code.code.startswith("browser") and code.code != "automation":
            assert code.weight <= 0.1, code.code


@pytest.mark.parametrize(
    ("agent", "http_1_0", "codes"),
    [
        (CHROME, False, []),
        (CHROME, True, ["browser-http"]),
        ("", False, ["no-agent"]),
        ("Mozilla/5.0", False, ["odd-agent"]),
        ("curl/8.5.0", True, ["program"]),
        (CHROME.replace("Chrome/", "HeadlessChrome/"), False, ["automation"]),
    ],
)
def test_a_source_of_a_log_is_judged_by_its_user_agent_and_version_of_http(agent, http_1_0, codes):
    assert [e.code for e in judge_source(agent, http_1_0)] == codes
