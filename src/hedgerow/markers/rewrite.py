"""
Rewrite a page: its links are sealed for one visitor, hidden links are added, and every other byte stays.

A page first becomes a `Skeleton`: literals, with gaps for what differs between visitors. This needs no key and no
visitor, so it is done once for all visitors who get the same page (`SkeletonCache`). Then the gaps are filled for one.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from math import inf
from threading import Lock
from typing import Literal, TypeVar

from hedgerow.core.visit import MarkerKind
from hedgerow.markers.clean import PARAMETER, SCRIPT_ELEMENT, ChecksPlan, CleanCodec, View, split_link, without_marks
from hedgerow.markers.encoding import KIND_CODES, PAGE_BYTES
from hedgerow.markers.hidden_targets import HiddenTargets
from hedgerow.markers.hidden_texts import WINDOW, add_link_texts, hidden_texts, may_have_text
from hedgerow.markers.html.scanner import Finding, FindingKind, Scanner
from hedgerow.markers.link_tags import LinkRole, link_role
from hedgerow.markers.resolve import PageLocation, as_name, resolve, resolve_all
from hedgerow.markers.rules import CLEAN, Link, LinkCache, LinkShape, Mode, Placement, Rules
from hedgerow.markers.scripts import LINKS_ELEMENT
from hedgerow.markers.siv_batch import MEMORY_PER_TEXT, SivPlan
from hedgerow.markers.token import TokenCodec, page_digest

Insert = Literal[
    "address", "base", "script", "links", "clearance", "style", "text-style", "trap", "text-trap-0", "text-trap-0-end",
    "text-trap-1", "text-trap-1-end", "text-trap-2", "text-trap-2-end", "scripted",
]  # fmt: skip
"""
What a gap gets that is the same all over a page for one visitor: the address that the browser shows, the page's base,
the script that hides a clean mark, the one that hides those of links, the one that obtains a clearance, the style of
hidden links, that of a page where all of them have text, the start of such a link without text, and start and end of
one with text, in three forms. "scripted" adds nothing: it says that a script owns the page.
"""
Gap = Literal["", "token", "mark"] | Insert
Segment = tuple[bytes, Gap, bytes]
"""A literal, and the gap after it: none, an insert, or a token or a clean mark, which seals the bytes."""

# What comes before the address of a refresh, and the quote that may begin it.
_REFRESH = re.compile(rb"(\s*+[\d.]*+\s*+[;,]?+\s*+(?:[uU][rR][lL]\s*+=\s*+)?+)([\"']?+)")
_WIDGET = re.compile(
    rb"data-(?:bs-)?(?:toggle|target|slide|parent|dismiss|ride)|role\s*=\s*[\"']?(?:tab|button)|aria-controls",
    re.IGNORECASE,
)
_LEAKY = frozenset({b"unsafe-url", b"always", b"no-referrer-when-downgrade", b"origin-when-crossorigin", b"default"})
# Leads to the same target from every page.
_ABSOLUTE = re.compile(rb"\s*(?:[/\\]|https?:[/\\]{2})", re.IGNORECASE)
# After a first slash these begin a host.
_AUTHORITY = frozenset({b"/", b"\\"})
# The first byte of a link to the same page.
_FRAGMENT = frozenset({b"#", b""})
# The findings before which a page has not named its base, and those after which links become something else.
_AFTER_BASE = frozenset({"base", "head-end", "after-link", "body-end"})
_LINKS = frozenset({"plain-link", "link"})
_PLACES = frozenset({"after-link", "head-end", "body-end"})
_CHANGES_LINKS = frozenset({"base", "scripted"})
_USUAL_LENGTH = 15
_LITERAL_END: Segment = (b"", "", b"")
_TEXT_TRAPS: tuple[tuple[Insert, Insert], ...] = (
    ("text-trap-0", "text-trap-0-end"),
    ("text-trap-1", "text-trap-1-end"),
    ("text-trap-2", "text-trap-2-end"),
)
_TEXT_TRAP_ENDS = frozenset(end for _, end in _TEXT_TRAPS)
# In place of what the mark of a hidden link seals, until its target is chosen.
_HIDDEN = KIND_CODES["trap"]
_MANY = 8
_NEAR = 6
_FILLED_AT_ONCE = 1000
"""Links, each with a token or a mark, in one step of rewriting."""
_MOST_AT_ONCE = 1_000
# A server can do other work in between. Of a page of 19,000 links such a piece takes 4 ms.
_SCANNED_AT_ONCE = 65_536
_CUT_AT_ONCE = 500
# With "links" each link may be followed by a place for a hidden one.
_FINDINGS_PER_LINK = 2
# Among which there are enough links whose text can be used.
_FINDINGS_FOR_TEXTS = 64
_DEEPEST_INNER_PAGE = 3
# With "spread" hidden links stand ever further apart, but never more than 16 times as far as the first two.
_MOST_DOUBLINGS = 4
_MOST_KNOWN = 50_000
# Their number is sealed in two bytes.
_MOST_HIDDEN_LINKS = 0xFFFF


@dataclass(slots=True)
class Skeleton:
    """
    A page, or a part of one, with gaps.

    *parts* are its literals and, empty, its gaps. The gaps at *tokens* get *contents*, one each, sealed; those at
    *marks* get a clean mark for *marked*, one each; those at *inserts* get what they name. *plan* and *checks* are how
    the codec next to them does it.
    """

    parts: list[bytes]
    tokens: list[int]
    contents: list[bytes]
    inserts: list[tuple[int, Insert]]
    marks: list[int] = field(default_factory=list)
    marked: list[bytes] = field(default_factory=list)
    plan: tuple[TokenCodec, list[SivPlan]] | None = None
    checks: tuple[CleanCodec, list[tuple[list[int], ChecksPlan]]] | None = None

    def add(self, literal: bytes, gap: Gap, sealed: bytes) -> None:
        """Add a literal and the gap after it."""
        self.parts.append(literal)
        if gap == "token":
            self.tokens.append(len(self.parts))
            self.contents.append(sealed)
        elif gap == "mark":
            self.marks.append(len(self.parts))
            self.marked.append(sealed)
        elif gap:
            self.inserts.append((len(self.parts), gap))
        self.parts.append(b"")

    def segments(self) -> Iterator[Segment]:
        gaps: dict[int, Segment] = {
            at: (b"", "token", sealed) for at, sealed in zip(self.tokens, self.contents, strict=True)
        }
        gaps |= {at: (b"", "mark", sealed) for at, sealed in zip(self.marks, self.marked, strict=True)}
        gaps |= {at: (b"", name, b"") for at, name in self.inserts}
        literal = b""
        for at, part in enumerate(self.parts):
            if at in gaps:
                yield literal, *gaps[at][1:]
                literal = b""
            else:
                literal += part
        yield literal, "", b""

    @property
    def memory(self) -> int:
        return 400 + 75 * len(self.parts) + MEMORY_PER_TEXT * (len(self.tokens) + len(self.marks))


class SkeletonCache:
    """
    Skeletons of whole pages, so that a page that comes again need not be scanned again.

    A page is looked up by its location and a sample of its bytes, which is ten times as fast as a digest, and then
    compared byte for byte, so that no page is taken for another. At most *memory* bytes; the least recently used page
    goes first. All pages of a cache must have the same prefix, and the same placement of hidden links.
    """

    _SAMPLE = 256

    def __init__(self, memory: int = 32_000_000) -> None:
        self._memory = memory
        self._largest = memory // 16
        self._pages: OrderedDict[tuple[int, bytes, object], tuple[bytes, Skeleton]] = OrderedDict()
        self._lock = Lock()
        self.used = 0

    def find(self, page: bytes, location: object) -> Skeleton | None:
        """Return the skeleton of a whole *page* if it is known."""
        key = self._key(page, location)
        with self._lock:
            known = self._pages.get(key)
            if known is None or known[0] != page:
                return None
            self._pages.move_to_end(key)
            return known[1]

    def add(self, page: bytes, location: object, made: Skeleton) -> None:
        """Remember the skeleton of a whole *page*, unless it is very large."""
        if len(page) > self._largest:
            return
        key = self._key(page, location)
        with self._lock:
            self._drop(self._pages.pop(key, None))
            self._pages[key] = (page, made)
            self.used += 2 * len(page) + made.memory
            while self.used > self._memory:
                self._drop(self._pages.popitem(last=False)[1])

    def _key(self, page: bytes, location: object) -> tuple[int, bytes, object]:
        return len(page), page[:: len(page) // self._SAMPLE + 1], location

    def _drop(self, entry: tuple[bytes, Skeleton] | None) -> None:
        if entry is not None:
            self.used -= 2 * len(entry[0]) + entry[1].memory


T = TypeVar("T")


def _result(steps: Generator[None, None, T]) -> T:
    """Run all steps at once, and return what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def quoted(value: bytes) -> bytes:
    """Return *value* as the value of an attribute, in double quotes."""
    return b'"' + value.replace(b"&", b"&amp;").replace(b'"', b"&quot;") + b'"'


def readable_address(target: bytes, token: bytes = b"") -> bytes:
    """Return the address of *target* in readable mode, up to its token or with it."""
    return target + (b"&" if b"?" in target else b"?") + PARAMETER + b"=" + token


def _is_below_root(target: bytes) -> bool:
    return target.partition(b"?")[0].rfind(b"/") > 0


def _origin(location: PageLocation) -> bytes:
    return location.scheme + b"://" + location.host


def _folder(location: PageLocation) -> bytes:
    """Return what relative links depend on: the whole path, because `?page=2` does."""
    return _origin(location) + location.target.partition(b"?")[0]


def _segments(link: Link) -> Sequence[Segment]:
    if not link:
        return ()
    gap: Gap = "mark" if link[3][1] == CLEAN else "token"
    return (link[0], gap, link[1]), (link[2], "", b"")


def _steps(placement: Placement | None, every: int) -> Iterator[int]:
    """Yield how many places for a hidden link there are from one that is used to the next."""
    # The first place also says that no base of the page follows.
    yield 1
    if placement in {"links", "spread"}:
        for number in count():
            yield every << (min(number, _MOST_DOUBLINGS) if placement == "spread" else 0)


def _role(data: bytes, start: int, end: int) -> LinkRole:
    """Return the role of the link whose target stands from *start* to *end*."""
    return link_role(data[data.rfind(b"<", 0, start) : start], data[end : data.find(b">", end)])


class PageRewriter:
    """
    Rewrites one page for one visitor: `feed` takes its bytes and returns those that are settled.

    The page is at *location*; its links are issued to *issued_to* and have *parent* as their parent page. *shown_at* is
    the opaque address by which the page was asked for, if it was. Then the browser must be told the page's base, and
    links within the page must lead to that address. *at* is the time of the visit. *generation* is that of
    its links. After about *most_links* links the rest of the page stays as it is, and `is_stopped` is set.
    """

    _FAR = 65_536

    def __init__(
        self,
        location: PageLocation,
        rules: Rules,
        prefix: bytes,
        cache: SkeletonCache,
        codec: TokenCodec,
        issued_to: bytes,
        parent: bytes,
        *,
        at: float = 0.0,
        shown_at: bytes = b"",
        generation: int = 0,
        most_links: float = inf,
    ) -> None:
        self.location = location
        self.issued_to = issued_to
        self.parent = parent
        self.codec = codec.handed_on if generation else codec
        self._clean = codec.clean
        self._at = at
        self._generation = generation
        self._view: View | None = None
        self.is_marked = bool(shown_at)
        self.needs_base = self.is_marked and _is_below_root(location.target)
        """Whether the browser would resolve relative links in the wrong folder: the page is not in its top folder."""
        self.is_scripted = False
        """Whether a script owns the page, as far as it has been fed."""
        self.is_stopped = False
        """Whether what follows stays as it is. Of a page that is fed at once nothing has been changed then."""
        self._findings_left = most_links
        self._depth = 0
        self._rules = rules
        self._prefix = prefix
        self._cache = cache
        self._is_fragment = False
        self._placement: Placement | None = None
        self._every = 0
        self._has_texts = False
        self._inserts: dict[Insert, bytes] = {"address": shown_at, "script": b"", "links": b"", "clearance": b""}
        if self.needs_base:
            self._inserts["base"] = b"<base href=" + quoted(location.target) + b">"
        self._scanner: Scanner | None = None

    def add_bait(
        self,
        style: bytes,
        link_start: bytes,
        placement: Placement,
        every: int,
        *,
        wrappers: Sequence[tuple[bytes, bytes]] | None = None,
        text_style: bytes | None = None,
    ) -> None:
        """
        Add hidden links to the page: *style* stands before the first, and each begins with *link_start*.

        If there are *wrappers*, hidden links have text where no script will read it. They begin and end as the first
        and the second of these by turns, and instead of the first as the third where the page has no scripts. If all
        have text, *text_style* may take the place of *style*.
        """
        self._inserts["style"] = style
        self._inserts["text-style"] = style if text_style is None else text_style
        self._inserts["trap"] = link_start
        if wrappers is not None:
            self._has_texts = True
            for (before, after), (start, end) in zip(wrappers, _TEXT_TRAPS, strict=True):
                self._inserts[start], self._inserts[end] = before, after
        self._placement = placement
        self._every = every
        if placement == "links":
            self._findings_left *= _FINDINGS_PER_LINK

    def remove_bait(self) -> None:
        """Add no hidden links after all. Nothing may have been fed yet."""
        self._placement = None

    def add_script(self) -> None:
        """Have the page remove the clean mark from its address, in which the browser shows it."""
        self._inserts["script"] = SCRIPT_ELEMENT

    def add_links_script(self) -> None:
        """Have the page remove clean marks from links that its own scripts may open."""
        self._inserts["links"] = LINKS_ELEMENT

    def add_clearance_script(self, element: bytes) -> None:
        """Have the page obtain a clearance by the script *element*."""
        self._inserts["clearance"] = element

    def treat_as_fragment(self, parent: bytes) -> None:
        """
        Take what comes for a fragment that a script inserts into the page *parent*.

        Its links are marked as those of that page; relative links stay, because nobody knows what they are relative to.
        """
        self.parent = parent
        self._is_fragment = True
        self.is_marked = self.needs_base = False
        self._placement = None

    def mark(self, url: bytes) -> bytes | None:
        """Return the marked form of an address in a response header, or None where it stays as it is."""
        found = resolve(url, self.location)
        if found is None:
            return None
        target, fragment = found
        name = target.decode("latin-1")
        mode = self._rules.mode_of(name)
        if mode == "opaque":
            return self._prefix + self.codec.seal("page", self.issued_to, self.parent, target) + fragment
        if mode == "readable":
            token = self.codec.seal("page", self.issued_to, self.parent, page_digest(name))
            return readable_address(target, token) + fragment
        if mode == "clean" and (parts := split_link(url)) is not None:
            view = self._page_view()
            check = self._clean.checks(view, self._clean.plan([KIND_CODES["page"] + without_marks(target)]))[0]
            return parts[0] + view.text + b"." + check + parts[1]
        return None

    def feed(self, data: bytes, *, final: bool) -> bytes:
        return _result(self.feeding(data, final=final))

    def feeding(self, data: bytes, *, final: bool) -> Generator[None, None, bytes]:
        """Do the same in steps, most of them below a millisecond: yields after each, returns the bytes at the end."""
        if self._scanner is None and final:
            return (yield from self._feed_whole(data))
        if self._scanner is None:
            self._scanner = Scanner(_steps(self._placement, self._every))
            self._begin()
            # Until the page has named a base of its own, or has not; a page that needs none does not wait.
            self._waiting: list[tuple[bytes, list[Finding]]] | None = [] if self.needs_base else None
            self._waiting_size = 0
        out = []
        for start in range(0, len(data) or 1, _SCANNED_AT_ONCE):
            end = start + _SCANNED_AT_ONCE
            out.append((yield from self._feed_part(self._scanner, data[start:end], final=final and end >= len(data))))
            yield
        return b"".join(out)

    def stop(self) -> None:
        """Leave the rest of the page as it is."""
        self.is_stopped = True
        if self._scanner is not None:
            self._scanner.stop()

    def _feed_part(self, scanner: Scanner, data: bytes, *, final: bool) -> Generator[None, None, bytes]:
        settled, findings = scanner.feed(data, final=final)
        if self._are_too_many(findings):
            self.stop()
            findings = []
        if self._waiting is None:
            return (yield from self._filling((yield from self._cutting(settled, findings))))
        self._waiting.append((settled, findings))
        self._waiting_size += len(settled)
        is_known = any(finding[2] in _AFTER_BASE for finding in findings)
        if not is_known and not final and self._waiting_size < self._FAR:
            return b""
        waiting, self._waiting = self._waiting, None
        has_base = self._names_base(waiting)
        out = []
        for part, found in waiting:
            skeleton = yield from self._cutting(part, found, has_base=has_base)
            out.append((yield from self._filling(skeleton)))
        return b"".join(out)

    def _are_too_many(self, findings: Sequence[Finding]) -> bool:
        self._findings_left -= len(findings)
        return self._findings_left < 0

    def _filling(self, skeleton: Skeleton) -> Generator[None, None, bytes]:
        parts = skeleton.parts.copy()
        if skeleton.contents:
            for places, tokens in self._tokens(skeleton):
                for at, token in zip(places, tokens, strict=True):
                    parts[at] = token
                if len(skeleton.contents) > _FILLED_AT_ONCE:
                    yield
        if skeleton.marked:
            view = self._page_view()
            start = view.text + b"."
            for places, plan in self._check_plans(skeleton):
                for at, check in zip(places, self._clean.checks(view, plan), strict=True):
                    parts[at] = start + check
                if len(skeleton.marked) > _FILLED_AT_ONCE:
                    yield
        for at, name in skeleton.inserts:
            if name == "scripted":
                self.is_scripted = True
            else:
                parts[at] = self._inserts[name]
        return b"".join(parts)

    def _tokens(self, skeleton: Skeleton) -> Iterator[tuple[Sequence[int], Sequence[bytes]]]:
        """Yield gaps of tokens, and their tokens: a few are sealed one by one, more of them a thousand at once."""
        if len(skeleton.contents) < _MANY:
            yield skeleton.tokens, self.codec.sealer(self.issued_to, self.parent)(skeleton.contents)
            return
        if skeleton.plan is None or skeleton.plan[0] is not self.codec:
            skeleton.plan = (self.codec, [])
        plans = skeleton.plan[1]
        for number, start in enumerate(range(0, len(skeleton.contents), _FILLED_AT_ONCE)):
            if number == len(plans):
                end = start + _FILLED_AT_ONCE
                plans.append(self.codec.plan(skeleton.contents[start:end], skeleton.tokens[start:end]))
            yield plans[number].places, plans[number].seal(self.issued_to + self.parent)

    def _page_view(self) -> View:
        """Return this view of the page, sealed at the first link that needs it."""
        if self._view is None:
            self._view = self._clean.view(self.issued_to, self.parent, self._at, self._generation)
        return self._view

    def _check_plans(self, skeleton: Skeleton) -> Iterator[tuple[list[int], ChecksPlan]]:
        """Yield gaps of clean marks, and how their checks are made."""
        if skeleton.checks is None or skeleton.checks[0] is not self._clean:
            skeleton.checks = (self._clean, [])
        plans = skeleton.checks[1]
        for number, start in enumerate(range(0, len(skeleton.marks), _FILLED_AT_ONCE)):
            if number == len(plans):
                end = start + _FILLED_AT_ONCE
                plans.append((skeleton.marks[start:end], self._clean.plan(skeleton.marked[start:end])))
            yield plans[number]

    def _feed_whole(self, page: bytes) -> Generator[None, None, bytes]:
        variant = "fragment" if self._is_fragment else self.is_marked
        key = self.location, variant, self._rules, self._has_texts
        skeleton = self._cache.find(page, key)
        if skeleton is None:
            self._begin()
            findings = yield from self._scanning(page)
            if self._are_too_many(findings):
                self.stop()
                return page
            has_base = self.needs_base and self._names_base([(page, findings)])
            skeleton = yield from self._cutting(page, findings, has_base=has_base)
            self._cache.add(page, key, skeleton)
            yield
        return (yield from self._filling(skeleton))

    def _scanning(self, page: bytes) -> Generator[None, None, list[Finding]]:
        """Scan a whole page in pieces, and return all findings, or some more than are allowed."""
        scanner = Scanner(_steps(self._placement, self._every))
        findings: list[Finding] = []
        at = 0
        for start in range(0, len(page) or 1, _SCANNED_AT_ONCE):
            end = start + _SCANNED_AT_ONCE
            settled, found = scanner.feed(page[start:end], final=end >= len(page))
            findings += [(first + at, last + at, kind, text) for first, last, kind, text in found] if at else found
            at += len(settled)
            if len(findings) > self._findings_left:
                break
            yield
        return findings

    def _names_base(self, parts: Iterable[tuple[bytes, list[Finding]]]) -> bool:
        """Return whether the page's head names a base of its own, near enough to its start to wait for it."""
        at = 0
        for part, findings in parts:
            for start, _, kind, _ in findings:
                if kind in _AFTER_BASE:
                    return kind == "base" and at + start < self._FAR
            at += len(part)
        return False

    # ---- From a page to its skeleton

    def _begin(self) -> None:
        """Set what changes while the page is read."""
        # Where relative links start. A base on another site takes them there, all but absolute ones.
        self._base = self.location
        self._has_base = self._is_elsewhere = False
        self._relative_to = _folder(self.location) if not self._is_fragment else _origin(self.location) + b" fragment"
        # A script that owns the page may open its links itself and look at their addresses.
        self._is_script_page = False
        self._known: LinkCache = self._rules.known_links
        self._shape: LinkShape = (b"", CLEAN) if self._rules.is_clean else (self._prefix, _USUAL_LENGTH)
        # Targets of links with a clean mark, in their order, and of hidden links: no target is of both.
        self._targets: dict[bytes, None] = {}
        self._hidden_targets = HiddenTargets(self.location.target, more_follow=self._scanner is not None)
        # A link to the page itself has no clean mark: scripts know by it where they are, and it leads nowhere new.
        target = self.location.target
        stays = not self._is_fragment and not self._rules.closes_pages
        is_clean = stays and self._rules.mode_of(target.decode("latin-1")) == "clean"
        self._own = KIND_CODES["page"] + target if is_clean else b""
        # By direction, what the mark of the first link to the next and the previous page seals, as if it were any link.
        self._sequence: dict[LinkRole, bytes] = {}
        self._is_styled = False
        self._hidden_links = 0
        # For each hidden link whose target is not chosen yet, whether it is written relative to the page.
        self._aimless: list[bool] = []
        # Texts of links, and the last bytes of the page, so far.
        self._texts: Sequence[bytes] = ()
        self._before = b""

    def _cutting(  # noqa: C901, PLR0912, PLR0915 - the loop of every page
        self, data: bytes, findings: Sequence[Finding], *, has_base: bool = False
    ) -> Generator[None, None, Skeleton]:
        """
        Cut *data* at *findings*; *has_base* says that our base element is not needed.

        Other pages may be cut between two steps, and change what is known about links.
        """
        change: Sequence[Segment]
        skeleton = Skeleton([], [], [], [])
        # What follows the last change and belongs before the next literal.
        behind = b""
        position = 0
        known, own = self._known, self._own
        is_elsewhere, hidden, sequence = self._is_elsewhere, self._hidden_targets.chosen, self._sequence
        parts, marks, marked = skeleton.parts, skeleton.marks, skeleton.marked
        self._may_run_scripts = self._scanner is not None or b"<script" in data or b"<script" in data.lower()
        for first in range(0, len(findings), _CUT_AT_ONCE):
            yield
            for index, (start, end, kind, text) in enumerate(findings[first : first + _CUT_AT_ONCE], first):
                if kind in _LINKS:
                    # A path is known by itself.
                    link = known.get(text) if not is_elsewhere else None
                    if link is None:
                        link = self._find_link(text, findings, index)
                    if link and link[1] != own:
                        opening, sealed, closing, shape = link
                        role = "" if kind == "plain-link" else _role(data, start, end)
                        if role == "download" or (hidden and sealed[1:] in hidden):
                            # The browser saves it, or it came too late for a hidden link to avoid its target.
                            continue
                        if role or sequence:
                            sealed = self._in_sequence(sealed, role)
                        self._shape = shape
                        parts.append(behind + data[position:start] + opening)
                        if shape[1] == CLEAN:
                            marks.append(len(parts))
                            marked.append(sealed)
                        else:
                            skeleton.tokens.append(len(parts))
                            skeleton.contents.append(sealed)
                        parts.append(b"")
                        behind, position = closing, end
                        continue
                    change = self._fragment_link(data, start, text) if link is None else ()
                elif kind in _PLACES:
                    behind = self._fill_place(skeleton, behind + data[position:start], data, start, kind, text)
                    position = start
                    continue
                elif start == end:
                    change = self._addition(kind, text) if kind != "head-start" or not has_base else ()
                    known = self._known
                else:
                    change = self._new_value(kind, text)
                    is_elsewhere = self._is_elsewhere
                if not change:
                    continue
                before = behind + data[position:start]
                for literal, gap, sealed in change[:-1]:
                    skeleton.add(before + literal, gap, sealed)
                    before = b""
                behind, position = before + change[-1][0], end
        skeleton.parts.append(behind + data[position:])
        yield
        if self._aimless:
            self._aim_hidden_links(skeleton)
        if self._has_texts:
            self._add_texts(skeleton, data, findings)
        return skeleton

    def _find_link(self, text: bytes, findings: Sequence[Finding], index: int) -> Link | None:
        """Return what the link of the finding *index* becomes, which is written as *text*; None within the page."""
        key = self._key(text)
        link = self._known.get(key)
        if link is None and text[:1] not in _FRAGMENT:
            self._learn(islice(findings, index, None))
            link = self._known[key]
        return link

    def _in_sequence(self, sealed: bytes, role: LinkRole) -> bytes:
        """
        Return what the mark of a link seals: that it leads to the next or the previous page, if it does.

        A page has one next page. The first link with that *role* counts, and further links to its target do.
        """
        if role:
            self._sequence.setdefault(role, sealed)
        return KIND_CODES["sequence"] + sealed[1:] if sealed in self._sequence.values() else sealed

    def _aim_hidden_links(self, skeleton: Skeleton) -> None:
        """Choose the targets of hidden links with a clean mark, now that those of all other links are known."""
        marked = skeleton.marked
        links = [sealed[1:] for sealed in marked if sealed is not _HIDDEN]
        earlier = list(islice(reversed(self._targets), _NEAR)) if not links else []
        self._targets |= dict.fromkeys(links)
        choose, parts, index = self._hidden_targets.choose, skeleton.parts, marked.index
        number = 0
        for before, is_relative in enumerate(self._aimless):
            number = index(_HIDDEN, number)
            last = max(number - before, 1)
            target = choose(self._targets, links[max(0, last - _NEAR) : last] or earlier)
            marked[number] = _HIDDEN + target
            address = readable_address(as_name(target, self._base) if is_relative else target)
            parts[skeleton.marks[number] - 1] += quoted(address)[1:-1]
        self._aimless.clear()

    def _add_texts(self, skeleton: Skeleton, data: bytes, findings: Sequence[Finding]) -> None:
        """Give hidden links a text, now that the texts of all other links are known."""
        self._before = (self._before + data[-WINDOW:])[-WINDOW:]
        some = findings[:: len(findings) // _FINDINGS_FOR_TEXTS + 1]
        self._texts = add_link_texts(self._texts, data, [finding[1] for finding in some if finding[2] in _LINKS])
        places = [at - 1 for at, name in skeleton.inserts if name in _TEXT_TRAP_ENDS]
        size = len(skeleton.parts)
        page = b"%d %b" % (self._hidden_links, self.location.target)
        texts = hidden_texts(page, self._texts, [at / size for at in places])
        for at, text in zip(places, texts, strict=False):
            skeleton.parts[at] += text
        if self._scanner is None and all(name != "trap" for _, name in skeleton.inserts):
            skeleton.inserts = [(at, "text-style" if name == "style" else name) for at, name in skeleton.inserts]

    def _addition(self, kind: FindingKind, text: bytes) -> Sequence[Segment]:
        """Return what is added to the page in a form, at the start of its head, and where a script owns it."""
        if kind == "form-fields":
            return self._form_field(text)
        if kind == "form-action":
            link = self._own_link("form-post" if text == b"post" else "form-get")
            return _segments((b" action=" + link[0], *link[1:])) if link else ()
        if kind == "head-start":
            # The script comes before any script of the page.
            script: tuple[Segment, ...] = ((b"", "script", b""),) if "clean" in self._rules.modes else ()
            base: tuple[Segment, ...] = ((b"", "base", b""),) if self.needs_base else ()
            return (*script, *base, _LITERAL_END) if script or base else ()
        self._is_script_page, self._known = True, self._rules.known_links_of_scripts
        return (b"", "scripted", b""), _LITERAL_END

    def _fill_place(
        self, skeleton: Skeleton, before: bytes, data: bytes, start: int, kind: FindingKind, text: bytes
    ) -> bytes:
        """
        Add what belongs after a link or at the end of head or body, behind the literal *before*.

        Returns what belongs before the next literal.
        """
        hides = self._placement is not None and self._hidden_links < _MOST_HIDDEN_LINKS
        if kind == "after-link" and self._placement == "end":
            hides = False
        if hides and not self._is_styled:
            self._is_styled = True
            skeleton.add(before, "style", b"")
            before = b""
        if kind == "body-end" and not self._is_fragment:
            skeleton.add(before, "clearance", b"")
            before = b""
            if text and "clean" in self._rules.modes:
                skeleton.add(before, "links", b"")
        if not hides or kind == "head-end":
            return before
        self._hidden_links += 1
        has_text = self._has_texts and (
            kind == "body-end"
            or not self._may_run_scripts
            or may_have_text((self._before + data[max(0, start - WINDOW) : start])[-WINDOW:])
        )
        return self._hide(skeleton, before, has_text=has_text)

    def _hide(self, skeleton: Skeleton, before: bytes, *, has_text: bool) -> bytes:
        """
        Add a link that looks like the one before it: as long, and in readable mode with that one's address.

        Its text, and its address if it has a clean mark, are written when those of all other links are known.
        """
        address, length = self._shape
        opening: Insert = "trap"
        if has_text:
            one = 0 if self._may_run_scripts else 2
            opening, closing = _TEXT_TRAPS[one if self._hidden_links % 2 else 1]
        skeleton.add(before, opening, b"")
        if length == CLEAN:
            self._aimless.append(bool(address))
            skeleton.add(b"", "mark", _HIDDEN)
        else:
            sealed = KIND_CODES["trap"] + self._hidden_links.to_bytes(2, "big").ljust(length, b"\0")
            skeleton.add(address, "token", sealed)
        if not has_text:
            return b'"></a>'
        skeleton.add(b'">', closing, b"")
        return b""

    def _fragment_link(self, data: bytes, start: int, text: bytes) -> Sequence[Segment]:
        """Return what a link within the page becomes: it leads to the address that the browser shows."""
        if not self.needs_base or self._has_base or self._is_widget(data, start):
            # On a page with a base of its own such a link leads to that base, with or without us.
            return ()
        return ((b'"', "address", b""), (quoted(text)[1:], "", b""))

    def _new_value(self, kind: FindingKind, text: bytes) -> Sequence[Segment]:
        """Return the new value of an attribute; nothing where it stays."""
        if kind in {"frame", "form-post", "form-get"}:
            is_own = not text.strip() and kind != "frame"
            return _segments(self._own_link(kind) if is_own else self._links(kind, [text])[0])
        if kind == "base":
            return self._new_base(text)
        if kind == "refresh":
            match = _REFRESH.match(text)
            assert match is not None
            address = text[match.end() :].rstrip().removesuffix(match[2])
            if not address:
                return ()
            lead = match[1] if b"=" in match[1] else match[1] + b"url="
            return _segments(self._links("link", [address], lead)[0])
        if kind == "srcdoc":
            return self._inner_page(text)
        if kind == "referrer" and text.strip().lower() in _LEAKY:
            return ((b'"strict-origin-when-cross-origin"', "", b""),)
        return ()

    def _key(self, text: bytes) -> bytes | tuple[bytes, bytes]:
        is_path = text[:1] == b"/" and text[1:2] not in _AUTHORITY and not self._is_elsewhere
        return text if is_path else (self._relative_to, text)

    def _learn(self, findings: Iterable[Finding]) -> None:
        """Work out unknown links of *findings*, many at once, but only up to where links become something else."""
        missing: dict[bytes | tuple[bytes, bytes], bytes] = {}
        for _, _, kind, text in findings:
            if kind in _LINKS and text[:1] not in _FRAGMENT and (key := self._key(text)) not in self._known:
                missing[key] = text
            if kind in _CHANGES_LINKS or len(missing) >= _MOST_AT_ONCE:
                break
        links = self._links("link", list(missing.values()))
        if len(self._known) + len(links) > _MOST_KNOWN:
            self._known.clear()
        self._known.update(zip(missing, links, strict=True))

    def _links(self, kind: FindingKind, texts: Sequence[bytes], lead: bytes = b"") -> list[Link]:
        """Return what links become that are written as *texts*; *lead* comes before the address."""
        found = resolve_all(texts, self._base)
        if self._is_elsewhere or self._is_fragment:
            found = [one if self._is_independent(text) else None for one, text in zip(found, texts, strict=True)]
        return self._marked(kind, found, texts, lead)

    def _is_independent(self, text: bytes) -> bool:
        """Return whether a link leads to the same target whatever it is relative to."""
        if self._is_elsewhere and not text.lstrip().lower().startswith((b"http", b"//")):
            return False
        return not self._is_fragment or _ABSOLUTE.match(text) is not None

    def _marked(
        self, kind: FindingKind, found: Sequence[tuple[bytes, bytes] | None], texts: Sequence[bytes], lead: bytes = b""
    ) -> list[Link]:
        """
        Return what links become that lead to the targets and fragments *found*, or to another site (None).

        *texts* are the links as they are written, which is how those with a clean mark stay.
        """
        names = [one[0].decode("latin-1") if one is not None else "" for one in found]
        modes = self._modes_of(names)
        digests = [page_digest(name) if mode == "readable" else b"" for name, mode in zip(names, modes, strict=True)]
        return [
            self._link(kind, *one, text, mode, digest, lead) if one is not None else ()
            for one, text, mode, digest in zip(found, texts, modes, digests, strict=True)
        ]

    def _modes_of(self, targets: Sequence[str]) -> list[Mode]:
        modes = self._rules.modes_of(targets)
        return ["readable" if mode == "opaque" else mode for mode in modes] if self._is_script_page else modes

    @staticmethod
    def _clean_link(kind: FindingKind, target: bytes, text: bytes, lead: bytes) -> Link:
        parts = split_link(text) if kind != "form-get" else None
        if parts is None:
            return ()
        code = KIND_CODES["frame" if kind == "frame" else "page"]
        opening, closing = quoted(lead + parts[0])[:-1], quoted(parts[1])[1:]
        # A hidden link behind it is written in the same way: by its path, or relative to the page.
        way = b"" if _ABSOLUTE.match(text) else b"."
        return opening, code + without_marks(target), closing, (way, CLEAN)

    def _link(
        self, kind: FindingKind, target: bytes, fragment: bytes, text: bytes, mode: Mode, digest: bytes, lead: bytes
    ) -> Link:
        if mode == "clean":
            return self._clean_link(kind, target, text, lead)
        # A form that is sent as a query drops the query of its action, so in readable mode it gets a field instead.
        if mode == "off" or (mode == "readable" and kind == "form-get"):
            return ()
        closing = fragment.replace(b"&", b"&amp;").replace(b'"', b"%22") + b'"'
        if mode == "opaque":
            marker: MarkerKind = "page" if kind == "link" else "frame" if kind == "frame" else "form"
            return b'"' + lead + self._prefix, KIND_CODES[marker] + target, closing, (self._prefix, len(target))
        address = quoted(readable_address(target))[1:-1]
        return b'"' + quoted(lead)[1:-1] + address, KIND_CODES["page"] + digest, closing, (address, PAGE_BYTES)

    def _own_link(self, kind: FindingKind) -> Link:
        """
        Return the address of a form that names none, and so goes to the page's own address, whatever its base is.

        Where the page was asked for by an opaque link the browser has that address already; but a form that is sent as
        a query would add to the query of that address. Where the base is another site, nothing of ours leads back.
        """
        if (self.is_marked and kind != "form-get") or self._is_fragment or self._is_elsewhere:
            return ()
        if self._modes_of([self.location.target.decode("latin-1")]) == ["clean"]:
            return ()
        return self._marked(kind, [(self.location.target, b"")], [b""])[0]

    def _form_field(self, action: bytes) -> Sequence[Segment]:
        """Return the hidden field that carries the token of a form in readable mode which is sent as a query."""
        if self._is_elsewhere or (self._is_fragment and not _ABSOLUTE.match(action)):
            return ()
        found = resolve(action, self._base) if action else (self.location.target, b"")
        mode = self._modes_of([found[0].decode("latin-1")])[0] if found is not None else "off"
        if found is None or mode not in {"readable", "clean"}:
            return ()
        path = found[0].partition(b"?")[0].decode("latin-1")
        opening = b'<input type="hidden" name="' + PARAMETER + b'" value="'
        if mode == "clean":
            return (opening, "mark", KIND_CODES["form"] + path.encode("latin-1")), (b'">', "", b"")
        return (opening, "token", KIND_CODES["form"] + page_digest(path)), (b'">', "", b"")

    def _new_base(self, text: bytes) -> Sequence[Segment]:
        """Return the page's own base, relative to where the page really is. The first of two counts."""
        if self._has_base:
            return ()
        self._has_base = True
        found = resolve(text, self.location)
        if found is None:
            if text.strip():
                self._is_elsewhere = True
                self._relative_to = _origin(self.location) + b" elsewhere"
            return ()
        self._base = self.location._replace(target=found[0])
        self._relative_to = _folder(self._base)
        return ((quoted(found[0]), "", b""),) if self.is_marked else ()

    def _inner_page(self, text: bytes) -> Sequence[Segment]:
        """Return the page inside a `srcdoc` attribute, with all that an attribute needs escaped; few in one another."""
        if self._depth == _DEEPEST_INNER_PAGE:
            return ()
        inner = PageRewriter(
            self._base, self._rules, self._prefix, self._cache, self.codec, self.issued_to, self.parent,
            at=self._at, generation=self._generation,
        )  # fmt: skip
        inner._is_fragment, inner._depth = self._is_fragment, self._depth + 1
        inner._begin()
        inner._is_elsewhere, inner._relative_to = self._is_elsewhere, self._relative_to
        findings = [finding for finding in Scanner(iter(())).feed(text, final=True)[1] if finding[0] != finding[1]]
        segments = list(_result(inner._cutting(text, findings)).segments())
        if len(segments) == 1:
            return ()
        escaped: list[Segment] = [(quoted(literal)[1:-1], gap, sealed) for literal, gap, sealed in segments]
        escaped[0] = (b'"' + escaped[0][0], *escaped[0][1:])
        escaped[-1] = (escaped[-1][0] + b'"', "", b"")
        return escaped

    @staticmethod
    def _is_widget(data: bytes, start: int) -> bool:
        """Return whether a script will take the link's `href` for the name of an element instead of following it."""
        tag = data.rfind(b"<", 0, start)
        return _WIDGET.search(data, tag, data.find(b">", start)) is not None
