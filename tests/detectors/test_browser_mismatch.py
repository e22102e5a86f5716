"""Script and headers that disagree about the browser."""

from __future__ import annotations

from hedgerow.detectors.browser_mismatch import BrowserMismatchDetector

from .browser_reports import Reporting

WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36"


def test_a_browser_that_agrees_gives_no_sign():
    assert Reporting(BrowserMismatchDetector).read(5, version=130) == []


def test_the_headers_of_the_page_count_and_not_those_of_the_report():
    browser = Reporting(BrowserMismatchDetector)
    browser.open(user_agent=WINDOWS)
    browser.report(version=130)
    assert browser.open(user_agent=WINDOWS) == ["browser-mismatch"]
    assert browser.known.detail == "Windows in the headers, Linux or Android in the page"
    assert browser.open(user_agent=WINDOWS) == []


def test_the_sign_ends_when_both_agree_again():
    browser = Reporting(BrowserMismatchDetector)
    browser.open(user_agent=WINDOWS)
    browser.report(version=130)
    browser.open()
    browser.report(version=130)
    assert browser.known.signs == ()
