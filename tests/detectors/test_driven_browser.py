"""Several signs at once weigh with each page; one alone never does."""

from __future__ import annotations

import pytest

from hedgerow.core.visit import BY_SCRIPT
from hedgerow.detectors.driven_browser import DrivenBrowserDetector

from .browser_reports import Reporting


def browser(*signs: str) -> Reporting:
    one = Reporting(DrivenBrowserDetector)
    for sign in signs:
        one.known.set(sign, holds=True)
    return one


@pytest.mark.parametrize(
    "signs", [("typed-links", "no-input"), ("webdriver", "no-files"), ("glances", "pointer", "browser-mismatch")]
)
def test_two_signs_with_one_of_how_pages_are_used_weigh_with_each_page(signs):
    one = browser(*signs)
    assert [one.open() for _ in range(3)] == [["driven-browser"]] * 3
    assert one.open(kind="asset") == []
    assert one.open(anomalies=(BY_SCRIPT,)) == []


@pytest.mark.parametrize(
    "signs", [(), ("typed-links",), ("no-input",), ("webdriver",), ("webdriver", "browser-mismatch", "pointer-jumps")]
)
def test_one_sign_or_only_what_the_browser_is_weighs_nothing(signs):
    assert browser(*signs).open() == []


def test_it_ends_with_the_signs():
    one = browser("typed-links", "no-input")
    one.known.set("no-input", holds=False)
    assert one.open() == []
    assert one.known.signs == ("typed-links",)
