"""Marking rules: which links of a site are marked, and how."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from posixpath import normpath
from typing import Literal
from urllib.parse import unquote

from hedgerow.core.request_kind import kind_of

Mode = Literal["clean", "opaque", "readable", "off"]
Placement = Literal["spread", "links", "end"]
"""
Where hidden links stand. "links": after the first link, after every n-th, and at the end. "spread": the same, but
ever further apart, because a page of a thousand links needs no hundred traps. "end": only at the end.
"""
LinkShape = tuple[bytes, int]
"""
How a hidden link imitates the link before it: the start of its address, and how many bytes its token seals. CLEAN where
it has a clean mark; then the start is "." if the link is written relative to the page, and else empty.
"""
CLEAN = -1
Link = tuple[bytes, bytes, bytes, LinkShape] | tuple[()]
"""
The new value of a link's attribute: the text before its token or mark, the bytes that this seals, the text after it,
and its shape. Empty where the link stays as it is.
"""
LinkCache = dict["bytes | tuple[bytes, bytes]", Link]
"""Links by their address as it is written; relative ones also by what they are relative to."""

PAGE_SUFFIXES = frozenset({
    "html", "htm", "xhtml", "xht", "shtml", "shtm", "php", "php3", "php4", "php5", "php7", "php8", "phtml", "asp",
    "aspx", "jsp", "jspx", "jsf", "do", "action", "cgi", "fcgi", "pl", "py", "rb", "cfm", "nsf", "page", "wiki",
})  # fmt: skip
"""Suffixes of pages. A link to a name with any other suffix leads to a file, which must keep its name."""
# Not a version: one letter at least.
_SUFFIX = re.compile(r"\.(?=[0-9]*[A-Za-z])([A-Za-z0-9]{1,8})\Z")
# A client chooses how long a target is: only short ones are cached, or the cache would have no bound.
_LONGEST_CACHED = 200


def _wildcards(pattern: str, anything: str) -> str:
    """
    Return an expression for *pattern*, in which `*` stands for any number of characters of the class *anything*.

    Each part but the last is taken where it comes first, and nowhere else: the groups are atomic. So the time is
    proportional to the length of the text, however many `*` there are.
    """
    first, *rest = map(re.escape, pattern.split("*"))
    if not rest:
        return first
    middle = "".join(f"(?>{anything}*?{part})" for part in rest[:-1] if part)
    return f"{first}{middle}{anything}*{rest[-1]}"


def _expression(pattern: str) -> str:
    path, question, query = pattern.partition("?")
    return _wildcards(path, "[^?]") + (rf"\?{_wildcards(query, '.')}" if question else r"(?:\?.*)?")


class Patterns:
    """
    Paths in which `*` stands for anything. A pattern without a "?" fits any query; one with a "?" goes on into it.

    >>> Patterns(["/app/*"]).match("/app/a?x=1"), Patterns(["*?*tab=*"]).match("/a?x=1&tab=2")
    (True, True)
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        whole = "|".join(f"({_expression(pattern)})" for pattern in patterns)
        self._match = re.compile(f"(?:{whole})\\Z" if whole else r"(?!)", re.DOTALL).match

    def match(self, target: str) -> bool:
        return self._match(target) is not None

    def first(self, targets: Iterable[str]) -> list[int | None]:
        """Return for each of *targets* the number of the first pattern that fits it, counted from 1."""
        return [found.lastindex if found else None for found in map(self._match, targets)]


_SPELLINGS = 3
"""How often a path may be escaped."""


def usual_path(target: str) -> str:
    r"""
    Return the path of *target* as a server may read it: unescaped, without dots, parameters and capital letters.

    >>> usual_path("/a/%252e%252e//Admin;x=1/users?y"), usual_path("/x\\..\\admin/")
    ('/admin/users', '/admin')
    """
    path = target.partition("?")[0]
    for _ in range(_SPELLINGS):
        path = unquote(path, "latin-1")
    parts = [part.partition(";")[0] for part in path.replace("\\", "/").split("/")]
    return normpath("/" + "/".join(parts).lstrip("/")).lower()


class NeverOpaque:
    """
    The paths of *patterns*, to which no opaque link leads: rules of a server in front of Hedgerow hold for them.

    >>> NeverOpaque(["/admin/*"]).match("/x/../ADMIN/users"), NeverOpaque(["/admin*"]).match("/administrator")
    (True, True)
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = Patterns(pattern.lower() for pattern in patterns)

    def match(self, target: str) -> bool:
        path = usual_path(target)
        return self._patterns.match(path) or self._patterns.match(path + "/") or self._patterns.match(target.lower())


def may_be_page(target: str) -> bool:
    """
    Return whether a link to *target* may lead to a page: its name has no suffix, or one that pages have.

    >>> [may_be_page(target) for target in ("/a/", "/a.PHP?x", "/v1.2", "/report.docx", "/feed/", "/a.tar.zst")]
    [True, True, True, False, False, False]
    """
    name = target.partition("?")[0].rpartition("/")[2]
    suffix = _SUFFIX.search(name)
    return (suffix is None or suffix[1].lower() in PAGE_SUFFIXES) and kind_of("GET", target) == "page"


class Rules:
    """
    Which links are marked, and how: the first of *patterns* that fits a path decides; else pages are marked in *mode*.

    *closed* tells which targets open only by a marked link. Links to them are marked even if their name is that of a
    file, because a page may have any name. They keep that name.

    *mode_for* may have another word on some targets, before all patterns: it returns one of *modes_for* or None.

    Also remembers what links became on earlier pages: the pages of a site share most of their links.
    """

    def __init__(
        self,
        mode: Mode,
        patterns: Sequence[tuple[str, Mode]] = (),
        closed: Callable[[str], bool] | None = None,
        *,
        mode_for: Callable[[str], Mode | None] | None = None,
        modes_for: Collection[Mode] = (),
    ) -> None:
        self._mode_for = mode_for
        self._mode = mode
        self._closed = closed
        self._mode_of_closed_files: Mode = "clean" if mode == "opaque" else mode
        self._patterns = Patterns(text for text, _ in patterns)
        self._modes = [mode for _, mode in patterns]
        self._cached_mode = lru_cache(maxsize=1 << 13)(lambda target: self.modes_of([target])[0])
        self.known_links: LinkCache = {}
        self.known_links_of_scripts: LinkCache = {}
        """The same on pages that a script has taken over, where no link is opaque."""
        self.marks = mode != "off" or any(mode != "off" for mode in (*self._modes, *modes_for))
        """Whether any link is marked."""
        self.closes_pages = closed is not None
        """Whether some pages open only by a marked link: then no mark may be missing."""
        self.is_clean = mode == "clean"
        """Whether links have clean marks unless a pattern says otherwise."""
        self.modes = frozenset(
            {mode, *self._modes, *modes_for, *([self._mode_of_closed_files] if closed is not None else ())}
        )
        """All modes that some link has."""

    def mode_of(self, target: str) -> Mode:
        """Return how links to *target* are marked."""
        return self._cached_mode(target) if len(target) <= _LONGEST_CACHED else self.modes_of([target])[0]

    def modes_of(self, targets: Sequence[str]) -> list[Mode]:
        """Return how links to each of *targets* are marked."""
        if self._mode_for is not None:
            chosen = list(map(self._mode_for, targets))
            rest = iter(self._by_patterns([t for t, mode in zip(targets, chosen, strict=True) if mode is None]))
            return [next(rest) if mode is None else mode for mode in chosen]
        return self._by_patterns(targets)

    def _by_patterns(self, targets: Sequence[str]) -> list[Mode]:
        numbers = self._patterns.first(targets)
        others = [target for target, number in zip(targets, numbers, strict=True) if number is None]
        found = iter([self._mode if may_be_page(target) else self._mode_of_file(target) for target in others])
        return [self._modes[number - 1] if number is not None else next(found) for number in numbers]

    def _mode_of_file(self, target: str) -> Mode:
        return self._mode_of_closed_files if self._closed is not None and self._closed(target) else "off"

    def is_closed(self, target: str) -> bool:
        """Return whether *target* opens only by a marked link. One to which no link is marked is open."""
        return self._closed is not None and self._closed(target) and self.mode_of(target) != "off"
