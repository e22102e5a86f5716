"""Browsers that say they are driven."""

from __future__ import annotations

import pytest

from hedgerow.detectors.webdriver import WebdriverDetector

from .browser_reports import Reporting


@pytest.mark.parametrize("numbers", [{"webdriver": 1}, {"drivers": 2}])
def test_a_browser_that_says_so_gives_a_sign_once(numbers):
    assert Reporting(WebdriverDetector).read(5, **numbers) == ["webdriver"]


def test_other_browsers_give_none():
    assert Reporting(WebdriverDetector).read(5) == []


def test_a_later_report_of_the_same_page_does_not_say():
    browser = Reporting(WebdriverDetector)
    browser.report(webdriver=1)
    browser.report(report=2)
    assert browser.open() == ["webdriver"]
