"""
Find the spots of a page where a hidden link can stand, without changing or losing a byte of it.

A tokenizer on compiled expressions. `_TOKEN` jumps from one tag that matters to the next. That is right as long as no
attribute holds a `<`, because only then could a `</a>` be something else than the end of a link; `_ODD` finds such
attributes, and behind one `_SKIP` walks tag by tag, exactly. Possessive quantifiers keep everything linear. Fed in
pieces, the scanner holds back an unfinished tag, and only that: a page of any size passes in bounded memory, and the
spots are the same however the page was cut.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from threading import Lock
from typing import Literal, NamedTuple

SpotKind = Literal["head", "link", "end"]


class Spot(NamedTuple):
    """Something may be added before the byte at *offset*."""

    offset: int
    kind: SpotKind


def _any_case(name: bytes) -> bytes:
    """An expression for a name in any case: four times as fast as the flag, which slows every set of characters."""
    return b"".join(b"[%c%c]" % (c, c - 32) if c > 96 else b"%c" % c for c in name)  # noqa: PLR2004 - ASCII


_WS = rb"[\t\n\f\r ]"
_OPENING = (
    b"script", b"link", b"meta", b"style", b"title", b"body", b"svg", b"iframe", b"textarea", b"select", b"template",
    b"math", b"noframes", b"noembed", b"xmp", b"plaintext",
)  # fmt: skip
_CLOSING = (b"a", b"svg", b"head", b"body", b"html", b"select", b"template", b"math")
_END_OF_NAME = rb"(?=[\t\n\f\r />]|\Z)"
# The root element that some frameworks take over (see `_HYDRATED`).
_SHELL = rb"[dD][iI][vV]" + _WS + rb"++(?:id=[\"']?__|data-(?:reactroot|server-rendered))"
# One flat row of alternatives that each begin with a set of one letter: the engine rules most of them out unread.
_MATTERS = (
    rb"(?:/(?:" + b"|".join(_any_case(name) + _END_OF_NAME for name in _CLOSING) + rb")|"
    + b"|".join(_any_case(name) + _END_OF_NAME for name in _OPENING) + rb"|" + _SHELL + rb"|!|\?)"
)  # fmt: skip
# The rest of a tag, to its ">". A quote opens a value only behind "=", as in the HTML standard.
_REST = rb"(?:[^>=]++|=" + _WS + rb"*+(?:\"[^\"]*+\"|'[^']*+'|(?![\t\n\f\r \"'])))*+>"
# The end of a link, the white space behind it, and whether an end tag follows; or anything else that matters.
_LINK_END = rb"(/[aA]" + _WS + rb"*+>)" + _WS + rb"*+(</)?"
_TOKEN = re.compile(rb"<(?:" + _LINK_END + rb"|" + _MATTERS + rb")")
_LINK_START = re.compile(rb"<[aA](?=[\t\n\f\r />])")
_ODD = re.compile(rb"=" + _WS + rb"*+(?:\"[^\"<]*+<|'[^'<]*+<)")
_SKIP = re.compile(
    rb"(?:[^<]++|<(?=[^a-zA-Z/!?])|<(?=/?[a-zA-Z]|/[^a-zA-Z>])(?!" + _MATTERS + rb")" + _REST + rb"|</>)*+"
)
_TAG = re.compile(rb"<(/?)([a-zA-Z]+)" + _REST)
_WHOLE = re.compile(rb"<(?:/?[a-zA-Z]" + _REST + rb"|/[^a-zA-Z][^>]*+>|[^a-zA-Z/!?]|[!?][^>]*+>)")
# Signs of a page whose script takes over the elements it was sent with (Next, Nuxt, SvelteKit, React, Vue): it compares
# them with its own, and would complain of a link more.
_HYDRATED = re.compile(
    rb"id=[\"']?__(?:next|nuxt)|/_(?:next|nuxt)/|/_app/immutable/|data-(?:reactroot|server-rendered|sveltekit)",
    re.IGNORECASE,
)
_MAY_TELL = frozenset({b"script", b"link", b"body", b"html", b"div"})
_META_POLICY = re.compile(rb"http-equiv\s*=\s*[\"']?\s*content-security-policy", re.IGNORECASE)
_SCRIPT = re.compile(rb"<!--|-->|<(/?)script(?=[\t\n\f\r />])", re.IGNORECASE)

_RAW = {
    name: re.compile(rb"</" + name + rb"(?=[\t\n\f\r />])", re.IGNORECASE)
    for name in (b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes")
}
# Inside these a link is drawn by script, or not as a link at all.
_CLOSED = frozenset({b"template", b"svg", b"math", b"select"})

LONGEST_TAG = 262_144
"""A tag longer than this is passed on, and the rest of its page untouched."""
_LONGEST_END = 24


class Scanner:
    """Reads one page. `feed` gives back the bytes that are settled, and the spots in them."""

    def __init__(self) -> None:
        self._held = b""
        self._inside: bytes | None = None
        self._depth = 0
        self._done = False
        self._ended = False
        self._script = [False, False]
        # Where in the piece at hand the last link ended: 0 also where the piece before ended in a link and white space,
        # -1 where there was none. And whether the link now open, if its start was in a piece before, follows another.
        self._behind_link = -1
        self._open_in_row: bool | None = None
        # The page's script owns its elements: from here on no spot behind links.
        self._hydrated = False
        # The page names a policy of its own, which may forbid our style: from here on no spot at all.
        self._forbidden = False

    def feed(self, data: bytes, *, final: bool) -> tuple[bytes, list[Spot]]:
        """
        The next piece of the page in; the bytes now settled, and the spots in them, out.

        An empty *data* with *final* gives what was held back.
        """
        if self._held:
            # While a tag is unfinished and its ">" has not come, looking again would find nothing: no quadratic time.
            if not final and b">" not in data and len(self._held) + len(data) <= LONGEST_TAG:
                self._held += data
                return b"", []
            data = self._held + data
            self._held = b""
        if self._done:
            return data, []
        spots: list[Spot] = []
        settled = self._scan(data, spots, final=final)
        self._keep_row(data, settled)
        if settled < len(data):
            if final or len(data) - settled > LONGEST_TAG:
                self._done = True
                return data, spots
            self._held = data[settled:]
            return data[:settled], spots
        if final and not self._ended and self._inside is None and not self._forbidden:
            spots.append(Spot(len(data), "end"))
        return data, spots

    def _scan(self, data: bytes, spots: list[Spot], *, final: bool) -> int:
        """Find spots in *data*; returns up to where it is settled."""
        position = 0
        odd = _ODD.search(data)
        search, find, rfind, length = _TOKEN.search, data.find, data.rfind, len(data)
        while True:
            if self._inside is not None:
                position = self._leave_raw(data, position)
                if self._inside is not None:
                    return position
            if odd is not None and odd.start() < position:
                odd = _ODD.search(data, position)
            token = search(data, position)
            at = token.start() if token is not None else length
            tag = rfind(b"<", position, at)
            if (odd is not None and odd.start() < at) or (tag >= 0 and find(b">", tag, at) < 0):
                # Perhaps inside another tag: walk there exactly.
                skipped = _SKIP.match(data, position)
                assert skipped is not None
                at = skipped.end()
                if at >= length:
                    return at
                token = _TOKEN.match(data, at)
            if token is None:
                return self._settle(data, position) if at >= length else at
            end_of_link = token.end(1)
            if end_of_link >= 0:
                if not final and token.end() >= length - 1:
                    return at
                self._link(data, at, spots, end=end_of_link, closes=token[2] is not None)
                position = end_of_link
                continue
            after = self._token(data, at, spots)
            if after is None:
                return at
            position = after

    def _settle(self, data: bytes, position: int) -> int:
        """Up to where *data*, in which nothing matters from *position* on, is settled: before an unfinished tag."""
        last = data.rfind(b"<", position)
        return last if last >= 0 and _WHOLE.match(data, last) is None else len(data)

    def _token(self, data: bytes, at: int, spots: list[Spot]) -> int | None:
        """Look at what stands at *at*; returns where to go on, or None where more must come first."""
        if data.startswith((b"<!", b"<?"), at):
            return self._declaration(data, at)
        tag = _TAG.match(data, at)
        if tag is None:
            return None
        closing, name, end = bool(tag[1]), tag[2].lower(), tag.end()
        if name in _MAY_TELL and _HYDRATED.search(data, at, end):
            self._hydrated = True
        if name in _CLOSED:
            self._depth = max(0, self._depth + (-1 if closing else 1))
        elif name == b"plaintext" and not closing:
            self._inside = name
        elif (name == b"script" or name in _RAW) and not closing:
            self._inside = name
            self._script = [False, False]
        elif name == b"head" and closing and not self._forbidden:
            spots.append(Spot(at, "head"))
        elif name in {b"body", b"html"} and closing and not self._ended and not self._depth:
            self._ended = True
            if not self._forbidden:
                spots.append(Spot(at, "end"))
        elif name == b"meta" and _META_POLICY.search(data, at, end):
            self._forbidden = True
        return end

    def _link(self, data: bytes, at: int, spots: list[Spot], *, end: int, closes: bool) -> None:
        """
        The end of a link at *at*, *end* behind it; *closes* where an end tag follows.

        Behind most links is a spot. Not behind the last of a row of links: style sheets speak of a row's last child
        (its rounded corner, its missing comma), and the page would look different.
        """
        if not (self._depth or self._ended or self._hydrated or self._forbidden) and not (
            closes and self._in_row(data, at)
        ):
            spots.append(Spot(end, "link"))
        self._behind_link = end
        self._open_in_row = None

    def _in_row(self, data: bytes, until: int) -> bool | None:
        """Whether the link that starts before *until* follows another with only white space between; None: no start."""
        if self._open_in_row is not None:
            return self._open_in_row
        behind = self._behind_link
        start = _LINK_START.search(data, max(behind, 0), until)
        if start is None:
            return None
        return behind >= 0 and not data[behind : start.start()].strip()

    def _keep_row(self, data: bytes, settled: int) -> None:
        """Keep what the next piece must know about links."""
        self._open_in_row = self._in_row(data, settled)
        blank = self._behind_link >= 0 and not data[self._behind_link : settled].strip()
        self._behind_link = 0 if blank and self._open_in_row is None else -1

    def _declaration(self, data: bytes, at: int) -> int | None:
        """A comment, a doctype or a processing instruction."""
        if data.startswith(b"<!--", at):
            # "<!-->" is a whole comment: the search begins inside the opening dashes.
            end = data.find(b"-->", at + 2)
            if end >= 0:
                return end + 3
            self._inside = b"!--"
            return max(at + 2, len(data) - 2) if len(data) > at + 4 else None
        if len(data) - at < len(b"<!--") and b">" not in data[at:]:
            return None
        end = data.find(b">", at)
        return end + 1 if end >= 0 else None

    def _leave_raw(self, data: bytes, position: int) -> int:
        """
        Go to where the element whose text is not markup ends.

        Returns the position of its end tag, and clears `_inside`; or, where the end has not come, up to where the text
        is settled: a few bytes are held back, because they may be the beginning of the end tag.
        """
        inside = self._inside
        if inside == b"!--":
            end = data.find(b"-->", position)
            if end >= 0:
                self._inside = None
                return end + 3
        elif inside == b"script":
            found = self._script_end(data, position)
            if self._inside is None:
                return found
            position = found
        elif inside != b"plaintext":
            assert inside is not None
            match = _RAW[inside].search(data, position)
            if match is not None:
                self._inside = None
                end = data.find(b">", match.end())
                if end >= 0:
                    return end + 1
                self._inside = inside
                return match.start()
        # From the last "<" or "-" on it may be the beginning of the end; no further back than an end tag is long.
        return max(position, len(data) - _LONGEST_END)

    def _script_end(self, data: bytes, position: int) -> int:
        """
        The end of a script, by the standard's odd rule: inside `<!--` a nested `<script>` needs its own `</script>`.

        State of that rule is kept across pieces.
        """
        while True:
            match = _SCRIPT.search(data, position)
            if match is None:
                return position
            escaped, doubly = self._script
            token = match[0]
            if token == b"<!--":
                self._script[0] = True
                # The dashes may already be those of "-->".
                position = match.end() - 2
                continue
            if token == b"-->":
                self._script = [False, False]
            elif not match[1]:
                self._script[1] = doubly or escaped
            elif doubly:
                self._script[1] = False
            else:
                end = data.find(b">", match.end())
                if end < 0:
                    return match.start()
                self._inside = None
                return end + 1
            position = match.end()


class Skeletons:
    """
    The spots of pages seen whole, so that a page that comes again need not be read again.

    Keyed by the page's very bytes: nothing can be mistaken for something else. At most *memory* bytes; the page that
    was not asked for the longest goes first.
    """

    def __init__(self, memory: int = 16_000_000) -> None:
        self._memory = memory
        self._largest = memory // 16
        self._pages: OrderedDict[bytes, tuple[Spot, ...]] = OrderedDict()
        self._lock = Lock()
        self.spent = 0

    def spots(self, page: bytes) -> tuple[Spot, ...]:
        """The spots of a whole *page*."""
        with self._lock:
            known = self._pages.get(page)
            if known is not None:
                self._pages.move_to_end(page)
                return known
        found = tuple(Scanner().feed(page, final=True)[1])
        if len(page) <= self._largest:
            with self._lock:
                if page not in self._pages:
                    self._pages[page] = found
                    self.spent += _cost(page, found)
                while self.spent > self._memory:
                    self.spent -= _cost(*self._pages.popitem(last=False))
        return found


def _cost(page: bytes, spots: tuple[Spot, ...]) -> int:
    return len(page) + 300 + 110 * len(spots)
