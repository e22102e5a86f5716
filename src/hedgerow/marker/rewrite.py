"""
Rewrite a page: every link that stays on the site is sealed for one visitor; every other byte stays.

A page is first *prepared*, which needs no key and no visitor: its links are found and resolved, and the page is cut
into literal pieces and places to fill. Then it is *written*, for this visitor: tokens into the places. A page that
comes again, for whomever, need not be prepared again (`Skeletons`).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Literal, Protocol, cast

from hedgerow.marker.resolve import Place, resolve
from hedgerow.marker.seal import Seal, page_digest
from hedgerow.page.scan import Find, Scanner

Mode = Literal["opaque", "readable", "off"]
Op = Literal["", "page", "form", "frame", "readable", "field", "here", "start", "head", "spot", "end", "scripted"]
Piece = tuple[bytes, Op, bytes]
"""A literal, and what follows it: the token of a target, or something at a spot. The bytes are the target."""

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

    @property
    def marks(self) -> bool:
        """Whether anything is marked at all."""
        return self._mode != "off" or any(mode != "off" for _, mode in self._patterns)

    def _look_up(self, target: str) -> Mode:
        for pattern, mode in self._patterns:
            if pattern.match(target):
                return mode
        return self._mode if self._is_page(target) else "off"


def _folder(place: Place) -> bytes:
    """What relative links depend on: the page itself, because `?page=2` does."""
    return place.host + place.target.partition(b"?")[0]


class _Known(dict[tuple[bytes, bytes], "tuple[Sequence[Piece], bytes]"]):
    """What became of links before. Pages of a site share most of theirs. Emptied when it is full."""

    _MOST = 50_000

    def __setitem__(self, key: tuple[bytes, bytes], value: tuple[Sequence[Piece], bytes]) -> None:
        if len(self) >= self._MOST:
            self.clear()
        super().__setitem__(key, value)


def quoted(value: bytes) -> bytes:
    """*value* as an attribute's, in double quotes."""
    return b'"' + value.replace(b"&", b"&amp;").replace(b'"', b"&quot;") + b'"'


class Spots(Protocol):
    """What is added at spots: the bait."""

    def at(self, kind: Op, neighbour: bytes) -> bytes: ...


class Preparer:
    """
    Prepares one page: *place* is where the browser believes relative links start, *site* where the page is.

    *marked* says that the page was asked for by an opaque link: then the browser must be told its base, and links to
    fragments must lead to the address that it shows. *inserted* says that it is no page but a fragment that a script
    will put into one, we do not know which: what is relative in it stays.
    """

    def __init__(self, place: Place, rules: Rules, prefix: bytes, *, marked: bool, inserted: bool = False) -> None:
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
        self._neighbour = b""
        self._folder = _folder(place) if not inserted else place.host + b" inserted"

    @property
    def needs_base(self) -> bool:
        """A page in the top folder has the same base as its marked address."""
        return self._marked and self._site.target.partition(b"?")[0].rfind(b"/") > 0

    def prepare(self, data: bytes, finds: Sequence[Find]) -> list[Piece]:
        """Cut *data* into pieces at *finds*."""
        pieces: list[Piece] = []
        # What was behind the last change and belongs before the next literal.
        behind = b""
        position = 0
        known = self._rules.known_on_scripted if self._scripted else self._rules.known
        for start, end, kind, text in finds:
            if kind == "page":
                if text[:1] == b"#" or not text:
                    change = self._fragment(data, start, text)
                else:
                    plain = text[:1] == b"/" and text[1:2] not in _AUTHORITY and not self._elsewhere
                    key = (b"" if plain else self._folder, text)
                    found = known.get(key)
                    if found is None:
                        found = known[key] = self._link(kind, text)
                    change, self._neighbour = found[0], found[1] or self._neighbour
            elif start == end:
                op, target = self._spot(kind, text)
                if op == "scripted":
                    self._scripted, known = True, self._rules.known_on_scripted
                if op:
                    pieces.append((behind + data[position:start], op, target))
                    behind, position = b"", start
                continue
            else:
                change = self._change(kind, text)
            if change:
                before = behind + data[position:start]
                for literal, op, target in change[:-1]:
                    pieces.append((before + literal, op, target))
                    before = b""
                behind = before + change[-1][0]
                position = end
        pieces.append((behind + data[position:], "", b""))
        return pieces

    def _spot(self, kind: str, text: bytes) -> tuple[Op, bytes]:
        """What is added at a spot, and the target that goes with it."""
        if kind != "fields":
            return cast("Op", kind), self._neighbour
        target = self._readable_form(text)
        return ("", b"") if target is None else ("field", target)

    def _fragment(self, data: bytes, start: int, text: bytes) -> Sequence[Piece]:
        """A link to the same page, or to another place of it: to the address that the browser shows."""
        if not self.needs_base or self._based or self._is_widget(data, start):
            # A page with a base of its own leads to that base, with or without us.
            return ()
        return ((b'"', "here", b""), (quoted(text)[1:], "", b""))

    def _change(self, kind: str, text: bytes) -> Sequence[Piece]:
        """What an attribute's value becomes; nothing where it stays."""
        if kind in {"frame", "form", "query"}:
            return self._link(kind, text)[0]
        if kind == "base":
            return self._rebase(text)
        if kind == "refresh":
            return self._refresh(text)
        if kind == "srcdoc":
            return self._inner(text)
        if kind == "referrer" and text.strip().lower() in _LEAKY:
            return ((b'"strict-origin-when-cross-origin"', "", b""),)
        return ()

    def _link(self, kind: str, text: bytes, lead: bytes = b"") -> tuple[Sequence[Piece], bytes]:
        """What a link becomes, and its target; nothing where it stays."""
        if self._elsewhere and not text.lstrip().lower().startswith((b"http", b"//")):
            return (), b""
        if self._inserted and not _STANDS_ALONE.match(text):
            return (), b""
        found = resolve(text, self._place)
        if found is None:
            return (), b""
        target, fragment = found
        mode = self._mode_of(target)
        if mode == "off":
            return (), b""
        behind = fragment.replace(b"&", b"&amp;").replace(b'"', b"%22") + b'"'
        if mode == "opaque":
            op: Op = "form" if kind == "query" else kind  # type: ignore[assignment]
            return ((b'"' + lead + self._prefix, op, target), (behind, "", b"")), target
        if kind == "query":
            # A form that asks by its address throws the query of that address away: it gets a hidden field instead.
            return (), b""
        joint = b"&" if b"?" in target else b"?"
        opening = quoted(lead + target + joint + PARAMETER + b"=")[:-1]
        return ((opening, "readable", target), (behind, "", b"")), target

    def _mode_of(self, target: bytes) -> Mode:
        mode = self._rules.mode_of(target.decode("latin-1"))
        return "readable" if mode == "opaque" and self._scripted else mode

    def _readable_form(self, action: bytes) -> bytes | None:
        """The path of a form in readable mode that needs a hidden field; None where it does not."""
        if self._elsewhere or (self._inserted and not _STANDS_ALONE.match(action)):
            return None
        found = resolve(action, self._place) if action else (self._site.target, b"")
        if found is None or self._mode_of(found[0]) != "readable":
            return None
        return found[0].partition(b"?")[0]

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
        return self._link("page", match[3], lead=match[1] if b"=" in match[1] else match[1] + b"url=")[0]

    def _inner(self, text: bytes) -> Sequence[Piece]:
        """A page inside an attribute, with all that an attribute needs escaped."""
        inner = Preparer(self._place, self._rules, self._prefix, marked=False, inserted=self._inserted)
        inner._elsewhere, inner._folder = self._elsewhere, self._folder  # it has the base of this page
        found = Scanner().feed(text, final=True)[1]
        pieces = inner.prepare(text, [find for find in found if find[0] != find[1]])
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
    Writes a prepared page for one visitor.

    *here* is the address that the browser shows, and *base* what it must be told, or b"".
    """

    def __init__(
        self, seal: Seal, minted_for: bytes, parent: bytes, *, here: bytes = b"", base: bytes = b"", spots: Spots
    ) -> None:
        self._page = seal.sealer("page", minted_for, parent)
        self._sealers = {
            "form": seal.sealer("form", minted_for, parent),
            "frame": seal.sealer("frame", minted_for, parent),
        }
        self._here = here
        self._base = base
        self._spots = spots
        self.is_scripted = False
        """Whether what was written so far says that the page is a script's."""

    def write(self, pieces: Sequence[Piece]) -> bytes:
        out: list[bytes] = []
        add = out.append
        tokens = iter(self._page([target for _, op, target in pieces if op == "page"]))
        for literal, op, target in pieces:
            add(literal)
            if op == "page":
                add(next(tokens))
            elif op:
                add(self._other(op, target))
        return b"".join(out)

    def _other(self, op: Op, target: bytes) -> bytes:
        if op == "readable":
            return self._page((page_digest(target.decode("latin-1")),))[0]
        if op == "field":
            token = self._sealers["form"]((page_digest(target.decode("latin-1")),))[0]
            return b'<input type="hidden" name="' + PARAMETER + b'" value="' + token + b'">'
        if op == "here":
            return self._here
        if op == "scripted":
            self.is_scripted = True
            return b""
        if op == "start":
            return b"<base href=" + quoted(self._base) + b">" if self._base else b""
        if op in self._sealers:
            return self._sealers[op]((target,))[0]
        return self._spots.at(op, target)


class Skeletons:
    """
    Prepared pages, so that a page that comes again need not be read again.

    Keyed by the page's very bytes and the place it was read at: nothing can be mistaken for something else. At most
    *memory* bytes; the page that was not asked for the longest goes first.
    """

    def __init__(self, memory: int = 32_000_000) -> None:
        self._memory = memory
        self._largest = memory // 16
        self._pages: OrderedDict[tuple[bytes, object], list[Piece]] = OrderedDict()
        self._lock = Lock()
        self.spent = 0

    def pieces(self, page: bytes, place: object, prepare: Callable[[bytes], list[Piece]]) -> list[Piece]:
        """The pieces of a whole *page*, prepared now or before."""
        key = (page, place)
        with self._lock:
            known = self._pages.get(key)
            if known is not None:
                self._pages.move_to_end(key)
                return known
        found = prepare(page)
        if len(page) <= self._largest:
            with self._lock:
                if key not in self._pages:
                    self._pages[key] = found
                    self.spent += _cost(page, found)
                while self.spent > self._memory:
                    old, pieces = self._pages.popitem(last=False)
                    self.spent -= _cost(old[0], pieces)
        return found


def _cost(page: bytes, pieces: Sequence[Piece]) -> int:
    return 2 * len(page) + 400 + 150 * len(pieces)


class Rewriter:
    """One page on its way out, in pieces: bytes in, the same with its links marked out."""

    _FAR = 65_536

    def __init__(self, preparer: Preparer, writer: PageWriter, skeletons: Skeletons, place: object) -> None:
        self._preparer = preparer
        self._writer = writer
        self._skeletons = skeletons
        self._place = place
        self._scanner: Scanner | None = None
        # Until it is known whether the page names a base of its own; where it needs none, nothing waits.
        self._waiting: list[tuple[bytes, list[Find]]] | None = [] if preparer.needs_base else None
        self._waited = 0

    def feed(self, data: bytes, *, final: bool) -> bytes:
        if self._scanner is None and final:
            return self._writer.write(self._skeletons.pieces(data, self._place, self._whole))
        if self._scanner is None:
            self._scanner = Scanner()
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

    def _whole(self, page: bytes) -> list[Piece]:
        finds = Scanner().feed(page, final=True)[1]
        return self._preparer.prepare(page, self._less(finds, own_base=self._names_base([(page, finds)])))

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
