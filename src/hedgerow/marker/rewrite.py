"""
Rewrite a page: every link that stays on the site is sealed for one visitor; every other byte stays.

A page is first *prepared*, which needs no key and no visitor: its links are found and resolved, and the page is cut
into literal pieces and places to fill. Then it is *written*, for this visitor: tokens into the places. A page that
comes again, for whomever, need not be prepared again (`Skeletons`).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import ClassVar, Literal

import msgspec

from hedgerow.marker.batch import COST, Plan
from hedgerow.marker.resolve import Place, resolve
from hedgerow.marker.seal import PAGE_BYTES, Seal, content, page_digest
from hedgerow.page.scan import Find, Scanner

Mode = Literal["opaque", "readable", "off"]
Fill = Literal["here", "base", "style", "lure", "scripted"]
"""
What is the same all over one page for one visitor: the address that the browser shows, the base that it is told, the
style of hidden links, and how such a link begins. "scripted" adds nothing: it is a sign that the page is a script's.
"""
Piece = tuple[bytes, Literal["", "token"] | Fill, bytes]
"""A literal, and what follows it: nothing, a token, which seals the bytes, or something that is filled in."""
Lure = tuple[bytes, int]
"""How the address of a hidden link begins, and how much its token seals: as the link before it."""
Link = tuple[bytes, bytes, bytes, Lure] | tuple[()]
"""
What a link becomes: what stands before its token, what the token seals, what stands behind it, and how a hidden link
after it looks. Empty where the link stays.
"""

_REFRESH = re.compile(rb"(\s*[\d.]*\s*[;,]?\s*(?:[uU][rR][lL]\s*=\s*)?)([\"']?)(.*?)\2?\s*\Z", re.DOTALL)
_WIDGET = re.compile(
    rb"data-(?:bs-)?(?:toggle|target|slide|parent|dismiss|ride)|role\s*=\s*[\"']?(?:tab|button)|aria-controls",
    re.IGNORECASE,
)
_LEAKY = frozenset({b"unsafe-url", b"always", b"no-referrer-when-downgrade", b"origin-when-crossorigin", b"default"})
_TELLING = frozenset({"base", "head", "spot", "end"})
# Leads to the same place from every page.
_STANDS_ALONE = re.compile(rb"\s*(?:[/\\]|https?:[/\\]{2})", re.IGNORECASE)
# A second slash begins a host.
_AUTHORITY = frozenset({b"/", b"\\"})
# How a link to the same page begins.
_FRAGMENT = frozenset({b"#", b""})
_ORDINARY = 15
_MANY = 8
_NOTHING: Piece = (b"", "", b"")
PARAMETER = b"~"
"""The query parameter that carries the token in readable mode."""


class Patterns:
    """
    Paths in which `*` stands for anything. One without a "?" fits whatever the query is, one with it goes on there.

    >>> Patterns(["/app/*"]).match("/app/a?x=1"), Patterns(["*?*tab=*"]).match("/a?x=1&tab=2")
    (True, True)
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        whole = "|".join(map(self._expression, patterns))
        self._pattern = re.compile(f"(?:{whole})\\Z" if whole else r"(?!)", re.DOTALL)

    @staticmethod
    def _expression(text: str) -> str:
        path, question, query = map(re.escape, text.partition("?"))
        # Nothing before the first "?" is of the query: so it takes no long looking for it.
        return path.replace(r"\*", "[^?]*") + (question + query.replace(r"\*", ".*") if question else r"(?:\?.*)?")

    def match(self, target: str) -> bool:
        return self._pattern.match(target) is not None


class Rules:
    """
    Which links are marked, and how: by path, the first pattern that fits decides.

    A pattern is a path in which `*` stands for anything; one with a "?" goes on into the query.
    """

    def __init__(self, mode: Mode, patterns: Sequence[tuple[str, Mode]], is_page: Callable[[str], bool]) -> None:
        self._mode = mode
        self._is_page = is_page
        self._patterns = tuple((Patterns((text,)), m) for text, m in patterns)
        self.known = _Known()
        self.known_on_scripted = _Known()
        self.mode_of = lru_cache(maxsize=1 << 13)(self._look_up)
        self.marks = mode != "off" or any(mode != "off" for _, mode in patterns)
        """Whether anything is marked at all."""

    def _look_up(self, target: str) -> Mode:
        for pattern, mode in self._patterns:
            if pattern.match(target):
                return mode
        return self._mode if self._is_page(target) else "off"


def _folder(place: Place) -> bytes:
    """What relative links depend on: the page itself, because `?page=2` does."""
    return place.host + place.target.partition(b"?")[0]


class _Known(dict["bytes | tuple[bytes, bytes]", "Link"]):
    """What became of links before. Pages of a site share most of theirs. Emptied when it is full."""

    _MOST = 50_000

    def __setitem__(self, key: bytes | tuple[bytes, bytes], value: Link) -> None:
        if len(self) >= self._MOST:
            self.clear()
        super().__setitem__(key, value)


def _pieces(link: Link) -> Sequence[Piece]:
    return ((link[0], "token", link[1]), (link[2], "", b"")) if link else ()


def quoted(value: bytes) -> bytes:
    """*value* as an attribute's, in double quotes."""
    return b'"' + value.replace(b"&", b"&amp;").replace(b'"', b"&quot;") + b'"'


def based(target: bytes) -> bytes:
    """The element that tells a browser where it is."""
    return b"<base href=" + quoted(target) + b">"


def is_deep(target: bytes) -> bool:
    """Whether a page is below a folder: one in the top folder has the same base as its marked address."""
    return target.partition(b"?")[0].rfind(b"/") > 0


Placement = Literal["spread", "links", "end"]
"""
spread: behind the first link and every n-th after it, ever further apart, and at the end: a page of a thousand links
needs no hundred traps. links: behind the first and strictly every n-th, and at the end. end: only there.
"""


class Spacing(msgspec.Struct, frozen=True):
    """Behind which links of a page bait stands. The same for all visitors, so that a prepared page has its spots."""

    placement: Placement = "spread"
    every: int = 3

    AT_ONE_DISTANCE: ClassVar[int] = 4

    def distances(self) -> Iterator[int]:
        """How many links to the next bait, each time."""
        if self.placement == "end":
            return
        yield 1
        placed = 1
        while True:
            yield self.every << ((placed - 1) // self.AT_ONE_DISTANCE if self.placement == "spread" else 0)
            placed += 1


@dataclass(slots=True)
class Prepared:
    """
    A page, or a piece of one, with gaps.

    *parts* are its literals and, empty, its gaps. The gaps at *tokens* get *contents*, sealed, one each; those of
    *fills* what they name. *plan* is how *seal* seals them, once it has.
    """

    parts: list[bytes]
    tokens: list[int]
    contents: list[bytes]
    fills: list[tuple[int, Fill]]
    plan: Plan | None = None
    seal: Seal | None = None

    def pieces(self) -> Iterator[Piece]:
        """The same as literals, each with what follows it."""
        gaps: dict[int, Piece] = {
            place: (b"", "token", sealed) for place, sealed in zip(self.tokens, self.contents, strict=True)
        }
        gaps |= {place: (b"", name, b"") for place, name in self.fills}
        literal = b""
        for place, part in enumerate(self.parts):
            if place in gaps:
                yield literal, *gaps[place][1:]
                literal = b""
            else:
                literal += part
        yield literal, "", b""


class Preparer:
    """
    Prepares one page: *place* is where the browser believes relative links start, *site* where the page is.

    *marked* says that the page was asked for by an opaque link: then the browser must be told its base, and links to
    fragments must lead to the address that it shows. *spacing* is where bait stands, or None where there is none.
    *inserted* says that it is no page but a fragment that a script will put into one, we do not know which: what is
    relative in it stays.
    """

    def __init__(
        self,
        place: Place,
        rules: Rules,
        prefix: bytes,
        *,
        marked: bool,
        spacing: Spacing | None = None,
        inserted: bool = False,
    ) -> None:
        self._place = place
        self._site = place
        self._rules = rules
        self._prefix = prefix
        self._marked = marked
        self._inserted = inserted
        # The page is a script's, which may open any link of it itself and look at where it is.
        self._scripted = False
        self._elsewhere = False
        self._based = False
        self._lure: Lure = (prefix, _ORDINARY)
        self._folder = _folder(place) if not inserted else place.host + b" inserted"
        self._baited = spacing is not None
        self._distances = iter(()) if spacing is None else spacing.distances()
        # The next bait is behind the link with which this would be 0; it never is where there is none to come.
        self._until_next = next(self._distances, 0)
        self._styled = False
        self._lures = 0

    @property
    def needs_base(self) -> bool:
        """Whether the browser would look for what is relative in the wrong folder."""
        return self._marked and is_deep(self._site.target)

    def prepare(self, data: bytes, finds: Sequence[Find]) -> Prepared:
        """Cut *data* at *finds*."""
        change: Sequence[Piece]
        prepared = Prepared([], [], [], [])
        parts, tokens, contents, fills = prepared.parts, prepared.tokens, prepared.contents, prepared.fills
        # What was behind the last change and belongs before the next literal.
        behind = b""
        position = 0
        known = self._rules.known_on_scripted if self._scripted else self._rules.known
        lure, until_next = self._lure, self._until_next
        for start, end, kind, text in finds:
            if kind == "page":
                plain = text[:1] == b"/" and text[1:2] not in _AUTHORITY and not self._elsewhere
                key = text if plain else (self._folder, text)
                link = known.get(key)
                if link is None and text[:1] not in _FRAGMENT:
                    link = known[key] = self._link(kind, text)
                if link:
                    opening, sealed, closing, lure = link
                    parts.append(behind + data[position:start] + opening)
                    tokens.append(len(parts))
                    contents.append(sealed)
                    parts.append(b"")
                    behind = closing
                    position = end
                    continue
                change = self._fragment(data, start, text) if link is None else ()
            elif kind == "spot" and until_next != 1:
                until_next -= 1
                continue
            elif start == end:
                self._lure, self._until_next = lure, until_next
                change = self._spot(kind, text)
                until_next = self._until_next
                known = self._rules.known_on_scripted if self._scripted else known
            else:
                change = self._change(kind, text)
            if not change:
                continue
            before = behind + data[position:start]
            for literal, op, sealed in change[:-1]:
                parts.append(before + literal)
                before = b""
                if op == "token":
                    tokens.append(len(parts))
                    contents.append(sealed)
                elif op:
                    fills.append((len(parts), op))
                parts.append(b"")
            behind = before + change[-1][0]
            position = end
        self._lure, self._until_next = lure, until_next
        parts.append(behind + data[position:])
        return prepared

    def _spot(self, kind: str, text: bytes) -> Sequence[Piece]:
        """What is added at a spot where something is due."""
        if kind == "fields":
            return self._field(text)
        if kind == "action":
            link = self._own_link(text.decode("ascii"))
            return _pieces((b" action=" + link[0], *link[1:])) if link else ()
        if kind == "start":
            return ((b"", "base", b""), _NOTHING) if self.needs_base else ()
        if kind == "scripted":
            self._scripted = True
            return (b"", "scripted", b""), _NOTHING
        if not self._baited:
            return ()
        if kind == "spot":
            self._until_next = next(self._distances, 0)
        style: tuple[Piece, ...] = () if self._styled else ((b"", "style", b""),)
        self._styled = True
        return (*style, _NOTHING) if kind == "head" else (*style, *self._hidden_link())

    def _hidden_link(self) -> Sequence[Piece]:
        """A link that looks like the one before it: as long, and in readable mode with that one's own address."""
        self._lures += 1
        address, length = self._lure
        target = self._lures.to_bytes(2, "big").ljust(length, b"\0")
        return (b"", "lure", b""), (address, "token", content("trap", target)), (b'"></a>', "", b"")

    def _fragment(self, data: bytes, start: int, text: bytes) -> Sequence[Piece]:
        """A link to the same page, or to another place of it: to the address that the browser shows."""
        if not self.needs_base or self._based or self._is_widget(data, start):
            # A page with a base of its own leads to that base, with or without us.
            return ()
        return ((b'"', "here", b""), (quoted(text)[1:], "", b""))

    def _change(self, kind: str, text: bytes) -> Sequence[Piece]:
        """What an attribute's value becomes; nothing where it stays."""
        if kind in {"frame", "form", "query"}:
            own = not text.strip() and kind != "frame"
            return _pieces(self._own_link(kind) if own else self._link(kind, text))
        if kind == "base":
            return self._rebase(text)
        if kind == "refresh":
            return self._refresh(text)
        if kind == "srcdoc":
            return self._inner(text)
        if kind == "referrer" and text.strip().lower() in _LEAKY:
            return ((b'"strict-origin-when-cross-origin"', "", b""),)
        return ()

    def _link(self, kind: str, text: bytes, lead: bytes = b"") -> Link:
        """What a link becomes, and how a hidden link behind it looks; nothing where it stays."""
        if self._elsewhere and not text.lstrip().lower().startswith((b"http", b"//")):
            return ()
        if self._inserted and not _STANDS_ALONE.match(text):
            return ()
        found = resolve(text, self._place)
        if found is None:
            return ()
        return self._marked_link(kind, *found, lead)

    def _marked_link(self, kind: str, target: bytes, fragment: bytes, lead: bytes) -> Link:
        mode = self._mode_of(target)
        if mode == "off":
            return ()
        behind = fragment.replace(b"&", b"&amp;").replace(b'"', b"%22") + b'"'
        if mode == "opaque":
            sealed = content("frame" if kind == "frame" else "page" if kind == "page" else "form", target)
            return b'"' + lead + self._prefix, sealed, behind, (self._prefix, len(target))
        if kind == "query":
            # A form that asks by its address throws the query of that address away: it gets a hidden field instead.
            return ()
        joint = b"&" if b"?" in target else b"?"
        address = quoted(target + joint + PARAMETER + b"=")[1:-1]
        sealed = content("page", page_digest(target.decode("latin-1")))
        return b'"' + quoted(lead)[1:-1] + address, sealed, behind, (address, PAGE_BYTES)

    def _own_link(self, kind: str) -> Link:
        """
        What the address of a form becomes that names none, and so goes to its page's own, whatever the base is.

        Where the page was asked for by an opaque link the browser has it already, and where the base is another site
        nothing of ours leads back.
        """
        if self._marked or self._inserted or self._elsewhere:
            return ()
        return self._marked_link(kind, self._site.target, b"", b"")

    def _mode_of(self, target: bytes) -> Mode:
        mode = self._rules.mode_of(target.decode("latin-1"))
        return "readable" if mode == "opaque" and self._scripted else mode

    def _field(self, action: bytes) -> Sequence[Piece]:
        """The hidden field of a form in readable mode that asks by its address; nothing where it needs none."""
        if self._elsewhere or (self._inserted and not _STANDS_ALONE.match(action)):
            return ()
        found = resolve(action, self._place) if action else (self._site.target, b"")
        if found is None or self._mode_of(found[0]) != "readable":
            return ()
        path = found[0].partition(b"?")[0].decode("latin-1")
        opening = b'<input type="hidden" name="' + PARAMETER + b'" value="'
        return (opening, "token", content("form", page_digest(path))), (b'">', "", b"")

    def _rebase(self, text: bytes) -> Sequence[Piece]:
        """The page names its own base: relative to where the page really is. Of two the first counts."""
        if self._based:
            return ()
        self._based = True
        found = resolve(text, self._site)
        if found is None:
            self._elsewhere = bool(text.strip())
            self._folder = self._site.host + b" elsewhere" if self._elsewhere else self._folder
            return ()
        self._place = self._site._replace(target=found[0])
        self._folder = _folder(self._place)
        return ((quoted(found[0]), "", b""),) if self._marked else ()

    def _refresh(self, text: bytes) -> Sequence[Piece]:
        match = _REFRESH.match(text)
        if match is None or not match[3]:
            return ()
        return _pieces(self._link("page", match[3], lead=match[1] if b"=" in match[1] else match[1] + b"url="))

    def _inner(self, text: bytes) -> Sequence[Piece]:
        """A page inside an attribute, with all that an attribute needs escaped."""
        inner = Preparer(self._place, self._rules, self._prefix, marked=False, inserted=self._inserted)
        inner._elsewhere, inner._folder = self._elsewhere, self._folder  # it has the base of this page
        found = Scanner().feed(text, final=True)[1]
        pieces = list(inner.prepare(text, [find for find in found if find[0] != find[1]]).pieces())
        if len(pieces) == 1:
            return ()
        escaped: list[Piece] = [(quoted(literal)[1:-1], op, target) for literal, op, target in pieces]
        escaped[0] = (b'"' + escaped[0][0], *escaped[0][1:])
        escaped[-1] = (escaped[-1][0] + b'"', "", b"")
        return escaped

    @staticmethod
    def _is_widget(data: bytes, start: int) -> bool:
        """Whether a script will take the link's `href` for the name of an element, and not follow it."""
        tag = data.rfind(b"<", 0, start)
        return _WIDGET.search(data, tag, data.find(b">", start)) is not None


class PageWriter:
    """
    Writes a prepared page for one visitor, its gaps filled with *fills*.
    """

    def __init__(self, seal: Seal, minted_for: bytes, parent: bytes, fills: Mapping[Fill, bytes]) -> None:
        self._seal = seal
        self._minted_for = minted_for
        self._parent = parent
        self._fills = fills
        self.is_scripted = False
        """Whether what was written so far says that the page is a script's."""

    def write(self, prepared: Prepared) -> bytes:
        parts = prepared.parts.copy()
        if prepared.contents:
            for place, token in zip(*self._tokens(prepared), strict=True):
                parts[place] = token
        for place, name in prepared.fills:
            if name == "scripted":
                self.is_scripted = True
            else:
                parts[place] = self._fills[name]
        return b"".join(parts)

    def _tokens(self, prepared: Prepared) -> tuple[Sequence[int], Sequence[bytes]]:
        """Where the tokens go, and the tokens: a few one by one, more of them all at once."""
        seal = self._seal
        if len(prepared.contents) < _MANY:
            return prepared.tokens, seal.sealer(self._minted_for, self._parent)(prepared.contents)
        plan = prepared.plan
        if plan is None or prepared.seal is not seal:
            plan = prepared.plan = seal.plan(prepared.contents, prepared.tokens)
            prepared.seal = seal
        return plan.places, seal.planned(plan, self._minted_for, self._parent)


class Skeletons:
    """
    Prepared pages, so that a page that comes again need not be read again.

    Looked up by the place it was read at and a sample of its bytes, which is ten times as quick as all of them, and
    then compared byte for byte: nothing can be mistaken for something else. At most *memory* bytes; the page that was
    not asked for the longest goes first.
    """

    _SAMPLE = 256

    def __init__(self, memory: int = 32_000_000) -> None:
        self._memory = memory
        self._largest = memory // 16
        self._pages: OrderedDict[tuple[int, bytes, object], tuple[bytes, Prepared]] = OrderedDict()
        self._lock = Lock()
        self.spent = 0

    def prepared(self, page: bytes, place: object, prepare: Callable[[bytes], Prepared]) -> Prepared:
        """A whole *page*, prepared now or before."""
        key = (len(page), page[:: len(page) // self._SAMPLE + 1], place)
        with self._lock:
            known = self._pages.get(key)
            if known is not None and known[0] == page:
                self._pages.move_to_end(key)
                return known[1]
        found = prepare(page)
        if len(page) <= self._largest:
            with self._lock:
                old = self._pages.pop(key, None)
                if old is not None:
                    self.spent -= _cost(*old)
                self._pages[key] = (page, found)
                self.spent += _cost(page, found)
                while self.spent > self._memory:
                    self.spent -= _cost(*self._pages.popitem(last=False)[1])
        return found


def _cost(page: bytes, prepared: Prepared) -> int:
    return 2 * len(page) + 400 + 75 * len(prepared.parts) + COST * len(prepared.tokens)


class Rewriter:
    """
    One page on its way out, in pieces: bytes in, the same with its links marked out.

    *make_preparer* makes what prepares it, where it is not known from before.
    """

    _FAR = 65_536

    def __init__(
        self, make_preparer: Callable[[], Preparer], writer: PageWriter, skeletons: Skeletons, place: object
    ) -> None:
        self._make_preparer = make_preparer
        self._writer = writer
        self._skeletons = skeletons
        self._place = place
        self._scanner: Scanner | None = None
        self._waiting: list[tuple[bytes, list[Find]]] | None = None
        self._waited = 0

    def feed(self, data: bytes, *, final: bool) -> bytes:
        if self._scanner is None and final:
            return self._writer.write(self._skeletons.prepared(data, self._place, self._whole))
        if self._scanner is None:
            self._scanner = Scanner()
            self._preparer = self._make_preparer()
            # Until it is known whether the page names a base of its own; where it needs none, nothing waits.
            self._waiting = [] if self._preparer.needs_base else None
        settled, finds = self._scanner.feed(data, final=final)
        if self._waiting is None:
            return self._writer.write(self._preparer.prepare(settled, finds))
        self._waiting.append((settled, finds))
        known = any(find[2] in _TELLING for find in finds)
        self._waited += len(settled)
        if not known and not final and self._waited < self._FAR:
            return b""
        waiting, self._waiting = self._waiting, None
        own_base = self._names_base(waiting)
        out = []
        for part, found in waiting:
            out.append(self._writer.write(self._preparer.prepare(part, self._less(found, own_base=own_base))))
        return b"".join(out)

    def _whole(self, page: bytes) -> Prepared:
        finds = Scanner().feed(page, final=True)[1]
        return self._make_preparer().prepare(page, self._less(finds, own_base=self._names_base([(page, finds)])))

    def _names_base(self, parts: Iterable[tuple[bytes, list[Find]]]) -> bool:
        """Whether the page's head names a base of its own, not too far from its start to be waited for."""
        at = 0
        for part, finds in parts:
            for start, _, kind, _ in finds:
                if kind in _TELLING:
                    return kind == "base" and at + start < self._FAR
            at += len(part)
        return False

    @staticmethod
    def _less(finds: list[Find], *, own_base: bool) -> list[Find]:
        """The finds, less the place for our base where the page has its own."""
        return [find for find in finds if find[2] != "start"] if own_base else finds
