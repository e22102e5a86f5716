"""A browser with a clearance that requests pages and reports on them, for the tests of detectors of driven browsers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from driving import START
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Marker, Visit
from hedgerow.markers.token import page_digest, visitor_digest
from hedgerow.request.browser_report import BrowserReport
from hedgerow.request.browser_signs import BrowserSigns, VisitorSigns

CLEARED = "clearance:ab"
ADDRESS = "192.0.2.1"
NOTHING = StateReply(None, ())
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
VISIT = Visit(START, ADDRESS, CLEARED, ADDRESS, "GET", "/page", origin="same", host="example.org", user_agent=CHROME)


class Reporting:
    """A browser, and the detectors that *build* makes with the same signs."""

    def __init__(self, *build: Callable[[BrowserSigns], Any], visitor: str = CLEARED) -> None:
        self.signs = BrowserSigns()
        self.detectors = [one(self.signs) for one in build]
        self.visitor = visitor
        self.at = START
        self._pages = itertools.count(1)

    @property
    def known(self) -> VisitorSigns:
        return self.signs.of(self.visitor)

    def open(self, target: str = "", *, after: float = 2.0, typed: bool = False, **fields: Any) -> list[str]:
        """Request a page, a new one unless *target* says which; return the codes of the evidence."""
        self.at += after
        target = target or f"/page/{next(self._pages)}"
        if typed:
            marker = Marker("page", visitor_digest(self.visitor), page_digest("/list"), target)
            fields = {"origin": "none", "marker": marker, **fields}
        visit = msgspec.structs.replace(VISIT, at=self.at, visitor=self.visitor, target=target, **fields)
        return [found.code for detect in self.detectors for found in detect(visit, NOTHING)]

    def report(self, **numbers: int) -> None:
        """Report on the page, as its script does when it is left."""
        report = BrowserReport(page=next(self._pages), **{"visible": 5000, "engine": 1, "system": 3, **numbers})
        for detect in self.detectors:
            if hasattr(detect, "on_report"):
                detect.on_report(msgspec.structs.replace(VISIT, at=self.at, visitor=self.visitor, kind="call"), report)

    def read(self, pages: int, **numbers: int) -> list[str]:
        """Open pages and report on each; return the codes of all evidence."""
        found = []
        for _ in range(pages):
            found += self.open()
            self.report(**numbers)
        return found + self.open()
