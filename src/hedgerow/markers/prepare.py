"""
Prepare a page: its links are found and resolved, and it is cut into literals with gaps between them.

That needs no key and no visitor, so it is done once for all who get the same page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from hedgerow.markers.html.scanner import Find, Scanner
from hedgerow.markers.resolve import PageLocation, resolve
from hedgerow.markers.rules import Link, Lure, Mode, Rules, Spacing
from hedgerow.markers.siv_batch import SivPlan
from hedgerow.markers.token import PAGE_BYTES, TokenCodec, content, page_digest

Fill = Literal["here", "base", "style", "lure", "scripted"]
"""
What is the same all over one page for one visitor: the address that the browser shows, the base that it is told, the
style of hidden links, and how such a link begins. "scripted" adds nothing: it is a sign that the page is a script's.
"""
Piece = tuple[bytes, Literal["", "token"] | Fill, bytes]
"""A literal, and what follows it: nothing, a token, which seals the bytes, or something that is filled in."""

_REFRESH = re.compile(rb"(\s*[\d.]*\s*[;,]?\s*(?:[uU][rR][lL]\s*=\s*)?)([\"']?)(.*?)\2?\s*\Z", re.DOTALL)
_WIDGET = re.compile(
    rb"data-(?:bs-)?(?:toggle|target|slide|parent|dismiss|ride)|role\s*=\s*[\"']?(?:tab|button)|aria-controls",
    re.IGNORECASE,
)
_LEAKY = frozenset({b"unsafe-url", b"always", b"no-referrer-when-downgrade", b"origin-when-crossorigin", b"default"})
# Leads to the same place from every page.
_STANDS_ALONE = re.compile(rb"\s*(?:[/\\]|https?:[/\\]{2})", re.IGNORECASE)
# A second slash begins a host.
_AUTHORITY = frozenset({b"/", b"\\"})
# How a link to the same page begins.
_FRAGMENT = frozenset({b"#", b""})
_ORDINARY = 15
_NOTHING: Piece = (b"", "", b"")
PARAMETER = b"~"
"""The query parameter that carries the token in readable mode."""


def _folder(place: PageLocation) -> bytes:
    """What relative links depend on: the page itself, because `?page=2` does."""
    return place.host + place.target.partition(b"?")[0]


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
    plan: SivPlan | None = None
    seal: TokenCodec | None = None

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
        place: PageLocation,
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
