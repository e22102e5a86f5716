"""
What the script of a page reports when the page is left: counts and sums, and what it says about the browser.

docs/browser-signs.md lists every number. The script of a crawler can report anything, so nothing here is a proof.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

_MOST_DIGITS = 10
_LEAST_MOVES = 5
_LEAST_VISIBLE = 500
_ENGINES = {1: "Chromium", 2: "Firefox", 3: "Safari"}
_SYSTEMS = {1: "Windows", 2: "macOS or iOS", 3: "Linux or Android"}
_LONGEST_AGENT = 1_000
_OTHER = re.compile(r"bot\b|crawl|spider|compatible;|https?://|@|Seamonkey|PaleMoon|Goanna", re.IGNORECASE)
_IOS = re.compile(r"\((?:iPhone|iPad|iPod)")
_CHROMIUM = re.compile(r"\bChrome/(\d{1,4})")
_FIREFOX = re.compile(r"\bFirefox/(\d{1,4})")
_SAFARI = re.compile(r"\A(?>.*?AppleWebKit/)(?>.*?\bVersion/(\d{1,4}))(?>.*?\bSafari/)")
_SYSTEM_NAMES = (
    (1, re.compile(r"\(Windows")),
    (2, re.compile(r"\((?:Macintosh|iPhone|iPad|iPod)")),
    (3, re.compile(r"\((?:X11; |Wayland; )?(?:Linux|Android|CrOS)")),
)


class BrowserReport(msgspec.Struct, frozen=True, gc=False):
    """
    The numbers of one report. A page that is looked at again after its first *report* sends what was added since.

    - *page*: a random number for the page, by which a report that arrives twice is counted once.
    - *visible*: milliseconds in which the page was visible.
    - *moves*, *presses*, *touches*, *keys*, *clicks*, *wheels*: trusted events.
    - *webdriver*, *drivers*: the browser says that it is driven; names that drivers leave in pages.
    - *engine*, *system*, *version*: what the script says about the browser; 0: nothing.
    - *files*, *loaded*: style sheets and images that the page shows from its own site, and how many of these it has.
    - The other numbers are sums over the movements of the mouse: see `request.pointer_model`.
    """

    report: int = 1
    page: int = 0
    visible: int = 0
    moves: int = 0
    presses: int = 0
    touches: int = 0
    keys: int = 0
    clicks: int = 0
    wheels: int = 0
    webdriver: int = 0
    drivers: int = 0
    engine: int = 0
    system: int = 0
    version: int = 0
    files: int = 0
    loaded: int = 0
    strokes: int = 0
    same: int = 0
    turn: int = 0
    turns: int = 0
    speed: int = 0
    change: int = 0

    @property
    def number(self) -> int:
        """A number for this report."""
        return hash((self.page, self.report))

    @property
    def is_first(self) -> bool:
        """Whether it is the first report of its page."""
        return self.report == 1

    @property
    def has_input(self) -> bool:
        """Whether somebody used the page by any device."""
        return bool(self.moves or self.presses or self.touches or self.keys or self.clicks or self.wheels)

    @property
    def is_used(self) -> bool:
        """Whether somebody seems to have looked at the page and used it by mouse, finger or keys."""
        # Software for the blind clicks without a pointer.
        by_hand = self.moves >= _LEAST_MOVES or self.touches > 1 or self.keys or (self.clicks and not self.presses)
        return self.visible >= _LEAST_VISIBLE and bool(by_hand)


def read_report(fields: Mapping[str, str]) -> BrowserReport | None:
    """
    Return the report in the *fields* of a form, or None if it has none.

    >>> read_report({"report": "1", "keys": "3", "other": "x"}).keys
    3
    >>> read_report({"report": "1", "keys": "-3"}) is None, read_report({}) is None
    (True, True)
    """
    numbers = {}
    for name in BrowserReport.__struct_fields__:
        text = fields.get(name)
        if text is not None:
            if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
                return None
            numbers[name] = int(text)
    return BrowserReport(**numbers) if numbers.get("report") else None


@lru_cache(maxsize=1 << 12)
def claimed_browser(user_agent: str) -> tuple[int, int, int]:
    """
    Return engine, system and version that a user agent names, as the script counts them; 0 where it is not known.

    >>> claimed_browser("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0")
    (2, 3, 128)
    """
    agent = user_agent[:_LONGEST_AGENT]
    if not agent.startswith("Mozilla/5.0 (") or _OTHER.search(agent):
        return 0, 0, 0
    system = next((number for number, pattern in _SYSTEM_NAMES if pattern.search(agent)), 0)
    if _IOS.search(agent):
        # Every browser there has the engine of Safari, and counts its own versions.
        return 3, system, 0
    for engine, pattern in ((1, _CHROMIUM), (2, _FIREFOX), (3, _SAFARI)):
        if match := pattern.search(agent):
            return engine, system, int(match[1])
    return 0, system, 0


def disagreement(report: BrowserReport, claimed: tuple[int, int, int]) -> str:
    """
    Return in a few words how the script disagrees with the *claimed* browser of the headers, or "".

    Firefox that resists fingerprinting names another system in its headers than to scripts, so its system is not
    compared. iPads call themselves Macs, and phones that ask for the desktop page call themselves Linux: these count as
    one system.
    """
    engine, system, version = claimed
    if engine and report.engine and engine != report.engine:
        return f"{_ENGINES[engine]} in the headers, {_ENGINES.get(report.engine, 'another')} in the page"
    if system and report.system and system != report.system and engine == 1:
        return f"{_SYSTEMS[system]} in the headers, {_SYSTEMS.get(report.system, 'another system')} in the page"
    if version and report.version and version != report.version:
        return f"version {version} in the headers, {report.version} in the page"
    return ""
