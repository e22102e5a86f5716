"""Pages without their files: not a cache, not a site with broken images."""

from __future__ import annotations

import pytest

from hedgerow.detectors.missing_files import MissingFilesDetector

from .browser_reports import Reporting


def test_five_pages_without_their_files_are_a_sign():
    assert Reporting(MissingFilesDetector).read(4, files=3) == []
    assert Reporting(MissingFilesDetector).read(5, files=3) == ["no-files"]


@pytest.mark.parametrize(
    "numbers", [{"files": 3, "loaded": 1}, {}, {"files": 3, "report": 2}, {"files": 3, "visible": 0}]
)
def test_what_is_not_counted(numbers):
    """A cache that has some of the files, pages without any, a page looked at again, and a background tab."""
    assert Reporting(MissingFilesDetector).read(20, **numbers) == []


def test_one_page_with_its_files_ends_it():
    browser = Reporting(MissingFilesDetector)
    browser.read(6, files=3)
    browser.report(files=3, loaded=1)
    assert browser.known.signs == ()


def test_a_site_whose_images_are_missing_is_not_held_against_who_asks_for_them():
    browser = Reporting(MissingFilesDetector)
    for _ in range(20):
        assert browser.open() == []
        browser.open("/missing.png", kind="asset")
        browser.report(files=1)


@pytest.mark.parametrize("target", ["/.hedgerow/0123/page.js", "/app.MJS", "/favicon.ico"])
def test_scripts_and_icons_are_no_such_files(target):
    browser = Reporting(MissingFilesDetector)
    for _ in range(5):
        browser.open(target, kind="asset")
        browser.report(files=1)
    assert browser.open() == ["no-files"]
