"""Reports of page scripts: what is read of them, and what contradicts the headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.request.browser_report import BrowserReport, claimed_browser, disagreement, read_report
from property_tests import examples

KIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
WINDOWS = f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {KIT} Chrome/130.0.0.0 Safari/537.36"
EDGE = WINDOWS + " Edg/130.0.0.0"
ANDROID = f"Mozilla/5.0 (Linux; Android 10; K) {KIT} Chrome/130.0.0.0 Mobile Safari/537.36"
CHROMEBOOK = f"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) {KIT} Chrome/130.0.0.0 Safari/537.36"
FIREFOX = "Mozilla/5.0 (Windows NT 10.0; rv:128.0) Gecko/20100101 Firefox/128.0"
SAFARI = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/17.5 Safari/605"
CHROME_ON_IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605 CriOS/130.0 Safari/604.1"


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        (WINDOWS, (1, 1, 130)),
        (EDGE, (1, 1, 130)),
        (ANDROID, (1, 3, 130)),
        (CHROMEBOOK, (1, 3, 130)),
        (FIREFOX, (2, 1, 128)),
        (SAFARI, (3, 2, 17)),
        (CHROME_ON_IPHONE, (3, 2, 0)),
        ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html) Chrome/130.0", (0, 0, 0)),
        ("curl/8.0", (0, 0, 0)),
        ("", (0, 0, 0)),
    ],
)
def test_what_a_user_agent_claims(agent, expected):
    assert claimed_browser(agent) == expected


@pytest.mark.parametrize(
    ("agent", "numbers", "expected"),
    [
        (WINDOWS, {"engine": 1, "system": 1, "version": 130}, ""),
        (WINDOWS, {"engine": 1, "system": 3, "version": 130}, "Windows in the headers, Linux or Android in the page"),
        (WINDOWS, {"engine": 2, "system": 1, "version": 128}, "Chromium in the headers, Firefox in the page"),
        (WINDOWS, {"engine": 1, "system": 1, "version": 156}, "version 130 in the headers, 156 in the page"),
        (ANDROID, {"engine": 1, "system": 3, "version": 130}, ""),
        # Firefox that resists fingerprinting.
        (FIREFOX, {"engine": 2, "system": 3, "version": 128}, ""),
        # An iPad that asks for the desktop page, and a browser of which the script knows nothing.
        (SAFARI, {"engine": 3, "system": 2, "version": 17}, ""),
        (WINDOWS, {}, ""),
        ("curl/8.0", {"engine": 1, "system": 3, "version": 156}, ""),
    ],
)
def test_disagreements(agent, numbers, expected):
    assert disagreement(BrowserReport(**numbers), claimed_browser(agent)) == expected


@given(st.dictionaries(st.sampled_from([*BrowserReport.__struct_fields__, "other"]), st.text(max_size=12)))
@examples(200)
def test_whatever_is_sent_gives_a_report_of_numbers_or_none(fields):
    report = read_report(fields)
    if report is not None:
        assert all(0 <= getattr(report, name) < 10**10 for name in BrowserReport.__struct_fields__)
        assert report.report > 0


def test_a_report_is_one_by_its_page_and_number():
    numbers = {BrowserReport(page=page, report=report).number for page in (7, 8) for report in (1, 2)}
    assert len(numbers) == 4
