"""
Signs of a driven browser, by visitor, as the detectors of such signs have found them in this process.

One sign can have a harmless reason. So the detectors tell one another what they have found: only several signs at once,
of which at least one is seen just now in how pages are used, speak for a crawler again and again.

Everything is bounded: the visitors seen last, and a few numbers for each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from hedgerow.core.decision import Evidence
from hedgerow.core.state import ACCOUNT, CLEARANCE
from hedgerow.core.visit import BY_PROGRAM, BY_SCRIPT, ELSEWHERE, Visit

TYPED_LINKS = "typed-links"
NO_INPUT = "no-input"
GLANCES = "glances"
NO_FILES = "no-files"
WEBDRIVER = "webdriver"
BROWSER_MISMATCH = "browser-mismatch"
POINTER = "pointer"
POINTER_JUMPS = "pointer-jumps"
BEHAVIOUR = frozenset({TYPED_LINKS, NO_INPUT, GLANCES, NO_FILES})
"""The signs in how pages are used. The others are in what the browser is."""

_PRIVACY = frozenset({b"sec-gpc", b"dnt"})
_MOST_VISITORS = 10_000
_RECENT_PAGES = 12
_RECENT_REPORTS = 8
_ENOUGH = 2
_LAST_REPORTS = 0xFF
_USED_REPORTS = 5


class VisitorSigns:
    """
    What is known of one visitor.

    - *at*: when it requested its last page. *pages*: hashes of the pages that it requested last. *new_pages*: how many
      since the last input.
    - *signs*: codes of the signs that hold now. *given*: those that evidence has been given of.
    - *claimed*: what the headers of its last page say about the browser. *detail*: how the script disagrees.
    - *typed*: bits that say of its last pages, the latest lowest, whether they came as if typed.
    - *empty*, *glances*, *unloaded*: reports in a row without input, of pages that were left at a glance, and of pages
      without their files. *loads_files*: it has asked for such a file since the last report.
    - *reports*: the numbers of its last reports.
    - *used*: bits that say of its last eight reported pages, the latest lowest, whether somebody used them. *viewed*:
      how many pages were reported that somebody could see.
    - *pointer*: sums over all movements of its mouse. *presses*: how often it was pressed.
    """

    __slots__ = (
        "at", "claimed", "detail", "empty", "given", "glances", "loads_files", "new_pages", "pages", "pointer",
        "presses", "reports", "signs", "typed", "unloaded", "used", "viewed",
    )  # fmt: skip

    def __init__(self) -> None:
        self.at = 0.0
        self.reports: tuple[int, ...] = ()
        self.signs: tuple[str, ...] = ()
        self.given: tuple[str, ...] = ()
        self.claimed: tuple[int, int, int] | None = None
        self.detail = ""
        self.pages: list[int] = []
        self.new_pages = 0
        self.typed = 0
        self.empty = 0
        self.glances = 0
        self.unloaded = 0
        self.loads_files = False
        self.pointer: tuple[int, ...] = ()
        self.presses = 0
        self.used = 0
        self.viewed = 0

    def set(self, code: str, *, holds: bool) -> None:
        """Record whether a sign holds now."""
        if holds and code not in self.signs:
            self.signs = (*self.signs, code)
        elif not holds and code in self.signs:
            self.signs = tuple(one for one in self.signs if one != code)

    @property
    def is_driven(self) -> bool:
        """Whether several signs hold, and at least one of them is in how pages are used just now."""
        return len(self.signs) >= _ENOUGH and not BEHAVIOUR.isdisjoint(self.signs)

    def note_use(self, *, is_used: bool) -> None:
        """Record whether somebody used a page, by its report."""
        self.used = self.used << 1 & _LAST_REPORTS | is_used
        self.viewed += 1

    @property
    def is_attended(self) -> bool:
        """Whether somebody used most of the last pages, and no sign of a driven browser holds."""
        return not self.signs and self.used.bit_count() >= _USED_REPORTS

    @property
    def is_unattended(self) -> bool:
        """Whether enough pages were reported to tell, and nobody used most of them."""
        return self.viewed >= _USED_REPORTS and self.used.bit_count() < _USED_REPORTS

    def open(self, page: int) -> bool:
        """Record that the visitor requests a page; return whether it is none of the last pages."""
        if page in self.pages:
            return False
        self.pages.append(page)
        if len(self.pages) > _RECENT_PAGES:
            del self.pages[0]
        self.new_pages += 1
        return True

    def give(self, evidence: Evidence) -> Sequence[Evidence]:
        """Return *evidence* of a sign that holds, but only once: a single sign does not add up."""
        if evidence.code not in self.signs or evidence.code in self.given:
            return ()
        self.given = (*self.given, evidence.code)
        return (evidence,)


class BrowserSigns:
    """The signs of the visitors seen last, at most *most*."""

    def __init__(self, most: int = _MOST_VISITORS) -> None:
        self._most = most
        self._visitors: OrderedDict[str, VisitorSigns] = OrderedDict()

    def __len__(self) -> int:
        return len(self._visitors)

    def find(self, visitor: str) -> VisitorSigns | None:
        return self._visitors.get(visitor)

    def is_new(self, visitor: str, report: int) -> bool:
        """Record the number of a report; return False if it is one of the visitor's last."""
        known = self.of(visitor)
        if report in known.reports:
            return False
        known.reports = (*known.reports[1 - _RECENT_REPORTS :], report)
        return True

    def of(self, visitor: str) -> VisitorSigns:
        """Return the signs of a visitor, which becomes the one seen last."""
        known = self._visitors.get(visitor)
        if known is None:
            known = self._visitors[visitor] = VisitorSigns()
            if len(self._visitors) > self._most:
                self._visitors.popitem(last=False)
        else:
            self._visitors.move_to_end(visitor)
        return known


def page_hash(host: str, target: str) -> int:
    """Return the number by which `VisitorSigns.pages` has a page."""
    return hash((host, target))


_NO_VIEW = frozenset({BY_SCRIPT, BY_PROGRAM, ELSEWHERE})


def is_one_browser(visit: Visit) -> bool:
    """Return whether the visitor is one browser: without a clearance or an account it may be many behind an address."""
    return visit.visitor.startswith((CLEARANCE, ACCOUNT))


def asks_for_privacy(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """
    Return whether a browser asks not to be observed: by Global Privacy Control or Do Not Track.

    >>> asks_for_privacy([(b"Sec-GPC", b"1")]), asks_for_privacy([(b"dnt", b"0")])
    (True, False)
    """
    return any(value.strip() == b"1" and name.lower() in _PRIVACY for name, value in headers)


def is_page_view(visit: Visit) -> bool:
    """Return whether a browser window loads a page for its user."""
    return visit.kind == "page" and (not visit.anomalies or _NO_VIEW.isdisjoint(visit.anomalies))
