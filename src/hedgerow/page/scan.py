"""
Find the spots of a page where a hidden link can stand, without changing or losing a byte of it.

A tokenizer on compiled expressions, with the rules of the HTML standard. `_TOKEN` jumps from one tag that matters to
the next. That is right as long as no quoted value holds a `<` or `>`, because only then could a `</a>` be something
else than the end of a link; `_ODD` finds such values, and behind one `_SKIP` walks tag by tag, exactly. Possessive
quantifiers keep everything linear. Fed in pieces, the scanner holds back an unfinished tag, and only that: a page of
any size passes in bounded memory, and the spots are the same however the page was cut.

What can only be told by building the tree is not guessed. Where an `<svg>`, `<math>` or `<select>` holds something that
would end elsewhere outside of it, no spot follows.
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
    b"math", b"noscript", b"noframes", b"noembed", b"xmp", b"plaintext",
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
# A tag behind its first letter, to its ">". As in the standard, a "=" is part of a name where it begins one, and a
# quote opens a value only directly behind the "=" of its attribute.
_VALUE = rb"(?:\"[^\"]*+\"|'[^']*+'|[^\t\n\f\r >\"'][^\t\n\f\r >]*+|(?=>))"
_REST = (
    rb"[^\t\n\f\r />]*+(?:[\t\n\f\r /]++|[^\t\n\f\r />][^\t\n\f\r />=]*+"
    rb"(?:" + _WS + rb"*+=" + _WS + rb"*+" + _VALUE + rb"|(?!" + _WS + rb"*+=)))*+>"
)  # fmt: skip
# The end of a link, the white space behind it, and whether an end tag or another link follows; or anything else that
# matters.
_LINK_END = rb"(/[aA]" + _WS + rb"*+>)" + _WS + rb"*+(?:(</)|(<[aA](?=[\t\n\f\r />])))?+"
_TOKEN = re.compile(rb"<(?:" + _LINK_END + rb"|" + _MATTERS + rb")")
_ODD = re.compile(rb"=" + _WS + rb"*+(?:\"[^\"<>]*+[<>]|'[^'<>]*+[<>])")
_SKIP = re.compile(
    rb"(?:[^<]++|<(?=[^a-zA-Z/!?])|<(?!" + _MATTERS + rb")/?(?=[a-zA-Z])" + _REST + rb"|</(?:[^a-zA-Z>][^>]*+)?+>)*+"
)
_TAG = re.compile(rb"<(/?)(?=([a-zA-Z]+))" + _REST)
_SELF_CLOSED = re.compile(rb"(?:[\t\n\f\r \"']|<svg|<math)/>\Z", re.IGNORECASE)
_COMMENT_END = re.compile(rb"--!?>")
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
    for name in (
        b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes", b"noscript",
        b"plaintext",
    )
}  # fmt: skip
# Inside these a link is drawn by script, or not as a link at all.
_CLOSED = frozenset({b"template", b"svg", b"math", b"select"})
# And inside these the elements of `_RAW` may be ordinary ones. Text in which nothing looks like a tag is the same
# either way, and so is a section `<![CDATA[`, which drawing programs put into their style sheets.
_FOREIGN = frozenset({b"svg", b"math", b"select"})
_SAME_EITHER_WAY = re.compile(rb"[^<]*+(?:<!\[CDATA\[(?:[^<\]]++|\](?!\]>))*+\]\]>[^<]*+)*+")
_MOST_CLOSED = 100

LONGEST_TAG = 262_144
"""A tag longer than this is passed on, and the rest of its page untouched."""
_LONGEST_END = 24
_LOOK_AHEAD = 3


class Scanner:
    """Reads one page. `feed` gives back the bytes that are settled, and the spots in them."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._held_size = 0
        # Whether what is held back cannot go on before a ">" comes.
        self._unfinished = False
        self._inside: bytes | None = None
        self._closed: list[bytes] = []
        self._done = False
        self._ended = False
        self._blank = True
        self._script = [False, False]
        # Whether the link that is open, if one is, follows another with only white space between.
        self._in_row = False
        # The page's script owns its elements: from here on no spot behind links.
        self._hydrated = False
        # The page names a policy of its own, which may forbid our style, or cannot be read with certainty: from here on
        # no spot at all.
        self._forbidden = False

    def feed(self, data: bytes, *, final: bool) -> tuple[bytes, list[Spot]]:
        """
        The next piece of the page in; the bytes now settled, and the spots in them, out.

        An empty *data* with *final* gives what was held back.
        """
        if self._held:
            self._held.append(data)
            self._held_size += len(data)
            # While a tag is unfinished and its ">" has not come, looking again would find nothing: no quadratic time.
            if self._unfinished and not final and b">" not in data and self._held_size <= LONGEST_TAG:
                return b"", []
            data = b"".join(self._held)
            self._held.clear()
        if self._done:
            return data, []
        spots: list[Spot] = []
        self._unfinished = True
        settled = self._scan(data, spots, final=final)
        self._blank = self._blank and not data.strip()
        if settled < len(data):
            if final or len(data) - settled > LONGEST_TAG:
                self._done = True
                return data, spots
            self._held.append(data[settled:])
            self._held_size = len(data) - settled
            return data[:settled], spots
        if final and not (self._ended or self._inside or self._closed or self._forbidden or self._blank):
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
                token = _TOKEN.match(data, at)
            if token is None:
                return at
            end_of_link = token.end(1)
            if end_of_link >= 0:
                if not final and token.lastindex == 1 and length - token.end() < _LOOK_AHEAD:
                    self._unfinished = False
                    return at
                self._link(spots, end=end_of_link, closes=token[2] is not None)
                self._in_row = token[3] is not None
                position = end_of_link
                continue
            after = self._token(data, at, spots)
            if after is None:
                return at
            position = after

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
            self._open_or_close(name, closing=closing, self_closed=_SELF_CLOSED.search(tag[0]) is not None)
        elif name in _RAW and not closing:
            if self._closed and self._closed[-1] in _FOREIGN:
                return self._pass_doubtful(data, name, end)
            self._inside = name
            self._script = [False, False]
        elif self._closed or self._forbidden or self._ended:
            pass
        elif name == b"head" and closing:
            spots.append(Spot(at, "head"))
        elif name in {b"body", b"html"} and closing:
            self._ended = True
            spots.append(Spot(at, "end"))
        elif name == b"meta" and _META_POLICY.search(data, at, end):
            self._forbidden = True
        return end

    def _open_or_close(self, name: bytes, *, closing: bool, self_closed: bool) -> None:
        """
        An element begins or ends inside which no spot is.

        A template ends all that is in it. Anything else must end in its turn: which of two has really ended only a tree
        could tell, so neither has.
        """
        closed = self._closed
        if name == b"select" and closed and closed[-1] == b"select":
            # A second one ends the first.
            closing = True
        if not closing:
            if not (self_closed and name in {b"svg", b"math"}):
                closed.append(name)
            # Deeper than any page: it cannot be told any more what ends what.
            self._forbidden = self._forbidden or len(closed) > _MOST_CLOSED
        elif closed and closed[-1] == name:
            closed.pop()
        elif name == b"template" and name in closed:
            while closed.pop() != name:
                pass

    def _pass_doubtful(self, data: bytes, name: bytes, position: int) -> int | None:
        """
        Go behind an element that is text only where HTML's own rules hold, and may not be here.

        None where its end has not come.
        """
        if name == b"plaintext":
            self._forbidden = True
            return position
        end = _RAW[name].search(data, position)
        tag = _TAG.match(data, end.start()) if end is not None else None
        if end is None or tag is None:
            return None
        if _SAME_EITHER_WAY.fullmatch(data, position, end.start()) is None:
            self._forbidden = True
        return tag.end()

    def _link(self, spots: list[Spot], *, end: int, closes: bool) -> None:
        """
        The end of a link, *end* behind it; *closes* where an end tag follows.

        Behind most links is a spot. Not behind the last of a row of links: style sheets speak of a row's last child
        (its rounded corner, its missing comma), and the page would look different.
        """
        if not (self._closed or self._ended or self._hydrated or self._forbidden or (closes and self._in_row)):
            spots.append(Spot(end, "link"))

    def _declaration(self, data: bytes, at: int) -> int | None:
        """A comment, a doctype or a processing instruction."""
        if data.startswith(b"<!--", at):
            # "<!-->" and "<!--->" are whole comments.
            inner = at + 4
            for whole in (b">", b"->"):
                if data.startswith(whole, inner):
                    return inner + len(whole)
            if len(data) - inner < len(b"->"):
                return None
            self._inside = b"!--"
            return inner
        if data.startswith(b"<![CDATA[", at) and self._closed and self._closed[-1] in _FOREIGN:
            end = data.find(b"]]>", at)
            if end >= 0 and data.find(b">", at) < end:
                self._forbidden = True
            return end + 3 if end >= 0 else None
        if len(data) - at < len(b"<![CDATA[") and b">" not in data[at:]:
            return None
        end = data.find(b">", at)
        return end + 1 if end >= 0 else None

    def _leave_raw(self, data: bytes, position: int) -> int:
        """
        Go to where the element whose text is not markup ends.

        Returns the position behind its end tag, and clears `_inside`; or, where the end has not come, up to where the
        text is settled: a few bytes are held back, because they may be the beginning of the end tag.
        """
        inside = self._inside
        assert inside is not None
        if inside == b"plaintext":
            return len(data)
        if inside == b"!--":
            match = _COMMENT_END.search(data, position)
            if match is not None:
                self._inside = None
                return match.end()
            return max(position, len(data) - len(b"--!"))
        if inside == b"script":
            position, match = self._script_end(data, position)
        else:
            match = _RAW[inside].search(data, position)
        if match is None:
            return max(position, len(data) - _LONGEST_END)
        tag = _TAG.match(data, match.start())
        if tag is None:
            return match.start()
        self._inside = None
        return tag.end()

    def _script_end(self, data: bytes, position: int) -> tuple[int, re.Match[bytes] | None]:
        """
        The end of a script, by the standard's odd rule: inside `<!--` a nested `<script>` needs its own `</script>`.

        Returns up to where the rule was followed, and the end tag where it was found. State of the rule is kept across
        pieces.
        """
        while True:
            match = _SCRIPT.search(data, position)
            if match is None:
                return position, None
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
                return match.start(), match
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
