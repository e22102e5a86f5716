"""
Scan a page as a browser would, byte for byte: where its links are, and where a hidden link can stand.

A tokenizer on compiled expressions, with the rules of the HTML standard. `_TOKEN` jumps from one relevant tag to the
next. That is exact as long as every `<` begins a tag that ends at the next `>`, with no `<` or `>` in a quoted value:
else a `</a>` could be anything but the end of a link. Where a tag is otherwise `_SKIP` walks exactly, tag by tag.
Possessive quantifiers keep all of it linear. Fed in pieces, the scanner holds back nothing but an unfinished tag. So a
page of any size passes in bounded memory, and the findings are the same however the page was cut.

The scanner does not guess what only the tree can tell. Where an `<svg>`, `<math>` or `<select>` holds something that
would end elsewhere outside of it, nothing is added after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Literal

from hedgerow.markers.html.entities import attribute_text

FindingKind = Literal[
    "head-start", "head-end", "after-link", "body-end", "form-action", "form-fields", "scripted",
    "link", "plain-link", "form-post", "form-get", "frame", "refresh", "base", "srcdoc", "referrer",
]  # fmt: skip
Finding = tuple[int, int, FindingKind, bytes]
"""
A finding in a page: start, end, kind, text. A plain tuple, because a page has hundreds.

Where start equals end, something can be added: at the start of the head ("head-start"), at its end, after a link, at
the end of the body (the text is b"script" if the page runs scripts), in a form ("form-fields"; the text is its action)
and in the tag of a form without an action ("form-action"; the text is its method). "scripted" only says that a script
owns the page from here on: it goes by the address that the browser shows.

Else the bytes from start to end are the value of an attribute with its quotes, and the text is what it means: the
target of a link (a "plain-link" is an `<a href=...>` in whose tag there is nothing else), of a form that is sent as a
body ("form-post") or as a query ("form-get"), or of a frame; the content of a refresh; the page's base; a referrer
policy of the page or of an element; or the whole page in a "srcdoc".
"""


def _any_case(name: bytes) -> bytes:
    """Return an expression for a name in any case: four times as fast as the flag, which slows down every set."""
    return b"".join(b"[%c%c]" % (c, c - 32) if c > 96 else b"%c" % c for c in name)  # noqa: PLR2004 - ASCII


_WS = rb"[\t\n\f\r ]"
_OPENING = (
    b"a", b"area", b"script", b"style", b"svg", b"select", b"link", b"meta", b"math", b"form", b"frame", b"body",
    b"base", b"button", b"iframe", b"input", b"title", b"textarea", b"template", b"noscript", b"noframes", b"noembed",
    b"xmp", b"plaintext",
)  # fmt: skip
_CLOSING = (b"a", b"svg", b"select", b"head", b"html", b"body", b"template", b"math", b"noscript")
_END_OF_NAME = rb"(?=[\t\n\f\r />]|\Z)"
# The root element that some frameworks fill, or take over (see `_HYDRATED`).
_SHELL = (
    rb"[dD][iI][vV]" + _WS + rb"++(?:id=[\"']?(?:__|(?:root|app)[\"'\s/>])|data-(?:reactroot|server-rendered))"
    rb"|(?:[aA][pP][pP]-[rR][oO][oO][tT]|[aA][sS][tT][rR][oO]-[iI][sS][lL][aA][nN][dD])" + _END_OF_NAME
)  # fmt: skip


def _one_of(names: Iterable[bytes]) -> bytes:
    """Return an expression for any of *names*, grouped by first letter: that alone rules most tags out."""
    by_letter: dict[bytes, list[bytes]] = {}
    for name in names:
        by_letter.setdefault(name[:1], []).append(_any_case(name[1:]) + _END_OF_NAME)
    return b"|".join(_any_case(letter) + rb"(?:" + b"|".join(rest) + rb")" for letter, rest in by_letter.items())


def _letters(names: Iterable[bytes]) -> bytes:
    """Return the first letters of *names*, in both cases."""
    return b"".join(sorted({letter for name in names for letter in (name[:1], name[:1].upper())}))


# The first letter rules most tags out: to look at it first saves a sixth of the time.
_MAY_BE_RELEVANT = rb"(?=[dD!?" + _letters(_OPENING) + rb"]|/[" + _letters(_CLOSING) + rb"])"
# The second letter rules out the most frequent of the others.
_NEVER_RELEVANT = (
    rb"(?!/?+(?:[pP][ >]|[sS](?:[pP]|[eE][cC]|[tT][rR])|[tT][rRdDtTaAhH][ >b]|[hH][1-6]|[lL][iI][ >]|[bB][rR]?+[ >]"
    rb"|[dD][tTdDlL][ >]|[cC]))"
)
_RELEVANT = rb"(?:/(?:" + _one_of(_CLOSING) + rb")|" + _one_of(_OPENING) + rb"|" + _SHELL + rb"|[!?])"
# A tag after its first letter, up to its ">". As in the standard, a "=" is part of a name where it begins one, and a
# quote opens a value only directly after the "=" of its attribute.
_VALUE = rb"(?:\"[^\"]*+\"|'[^']*+'|[^\t\n\f\r >\"'][^\t\n\f\r >]*+|(?=>))"
_NAME = rb"[^\t\n\f\r />][^\t\n\f\r />=]*+"
_ATTRIBUTE = _NAME + rb"(?:" + _WS + rb"*+=" + _WS + rb"*+" + _VALUE + rb"|(?!" + _WS + rb"*+=))"
_ATTRIBUTES = rb"(?:[\t\n\f\r /]++|" + _ATTRIBUTE + rb")*+>"
_REST = rb"[^\t\n\f\r />]*+" + _ATTRIBUTES


def _with(tag: bytes, attribute: bytes) -> bytes:
    """Return an expression for a start tag after its "<"; its group is the value of *attribute*, with quotes."""
    name = _any_case(attribute)
    return (
        _any_case(tag) + rb"[\t\n\f\r /]++(?:(?!" + name + rb"[\t\n\f\r />=])" + _ATTRIBUTE
        + rb"[\t\n\f\r /]*+)*+" + name + _WS + rb"*+=" + _WS + rb"*+(" + _VALUE + rb")" + _ATTRIBUTES
    )  # fmt: skip


# The end of a link, the white space after it, and whether an end tag or another link follows; or a link with its
# target, and also with its end where it holds only text; or any other relevant tag; or, as most links are, one that has
# a target and a text and nothing else. The last comes first. Or else a "<" that begins no simple tag: one with quotes
# only around values, and with neither "<" nor ">" in these.
_LINK_END = rb"(/[aA]" + _WS + rb"*+>)" + _WS + rb"*+(?:(?=(</))|(?=(<[aA][\t\n\f\r />])))?+"
_LINK = _with(b"a", b"href") + rb"()(?:[^<]*+<" + _LINK_END + rb")?+"
# Anywhere else a quote is part of a name, and the next one may open a value that goes on behind the next ">".
_SIMPLE_NAME = rb"[^\t\n\f\r />\"'=<]++"
_SIMPLE = (
    rb"/?+" + _SIMPLE_NAME + rb"(?:[\t\n\f\r /]++" + _SIMPLE_NAME
    + rb"(?:=(?:\"[^\"<>]*+\"|'[^'<>]*+'|[^\t\n\f\r >\"'<]++))?+)*+[\t\n\f\r /]*+>"
)  # fmt: skip
_PLAIN_LINK = rb"a href=\"([^\"<>&]++)\">[^<]*+<" + _LINK_END
_TOKEN = re.compile(
    rb"<(?:" + _MAY_BE_RELEVANT + _NEVER_RELEVANT
    + rb"(?:" + _PLAIN_LINK + rb"|" + _LINK_END + rb"|" + _LINK + rb"|" + _RELEVANT + rb")|(?!" + _SIMPLE + rb"))"
)  # fmt: skip
_PLAIN_TARGET, _END_OF_PLAIN, _PLAIN_CLOSES, _PLAIN_NEXT = 1, 2, 3, 4
_END_OF_LINK, _CLOSES, _LINK_NEXT, _TARGET, _OPENED, _END_OF_WHOLE = 5, 6, 7, 8, 9, 10
_SKIP = re.compile(
    rb"(?:[^<]++|<(?=[^a-zA-Z/!?])|<(?!" + _RELEVANT + rb")/?(?=[a-zA-Z])" + _REST + rb"|</(?:[^a-zA-Z>][^>]*+)?+>)*+"
)
_TAG = re.compile(rb"<(/?)(?=([a-zA-Z]+))" + _REST)
_SELF_CLOSED = re.compile(rb"(?:[\t\n\f\r \"']|<svg|<math)/>\Z", re.IGNORECASE)
_EACH = re.compile(rb"(" + _NAME + rb")(?:" + _WS + rb"*+=" + _WS + rb"*+(" + _VALUE + rb"))?+")
_TAG_NAME = re.compile(rb"<[a-zA-Z][^\t\n\f\r />]*+")
# What may stand before the content of the head.
_OPENER = (
    rb"(?:" + _WS + rb"++|<!--(?:>|->|(?:[^-]++|-(?!-!?>))*+--!?>)|<![dD][oO][cC][tT][yY][pP][eE][^>]*+>|<\?[^>]*+>"
    rb"|<[hH][tT][mM][lL](?=[\t\n\f\r />])" + _ATTRIBUTES + rb")"
)
_PROLOGUE = re.compile(
    rb"(?:\xef\xbb\xbf)?+" + _OPENER + rb"*+(?:<[hH][eE][aA][dD](?=[\t\n\f\r />])" + _ATTRIBUTES + rb")?+"
)
_PROLOGUE_GOES_ON = re.compile(rb"(?:\xef\xbb?)?\Z|<!--|<(?:[!?hH][^>]*+)?\Z")
# The referrer policy of an element.
_OWN_POLICY = re.compile(rb"referrerpolicy", re.IGNORECASE)
_COMMENT_END = re.compile(rb"--!?>")
# Signs of a page whose script takes over the elements of the page: it compares them with its own, and would report an
# added link as an error. A page that names modules to load in advance is an application's (React Router, Nuxt,
# SvelteKit, Solid, VitePress); others are known by the names that they give (Next, Angular, Qwik, older ones).
_HYDRATED = re.compile(
    rb"id=[\"']?(?:__(?:next|nuxt)|ng-)|/_(?:next|nuxt)/|/_app/immutable/|data-(?:reactroot|server-rendered|sveltekit)"
    rb"|rel=[\"']?modulepreload|q:container",
    re.IGNORECASE,
)
_MAY_SHOW_SCRIPT = frozenset({b"script", b"link", b"body", b"html", b"div", b"app", b"astro"})
# The type of a script that holds data, and is not run.
_DATA = re.compile(
    rb"[\t\n\f\r \"'/]type" + _WS + rb"*+=" + _WS + rb"*+[\"']?+(?:[^\"'>]*json|text/(?!(?:java|ecma)))", re.IGNORECASE
)
_SHELLS = frozenset({b"div", b"app", b"astro"})
_SCRIPT = re.compile(rb"<!--|-->|<(/?)script(?=[\t\n\f\r />])", re.IGNORECASE)

_RAW = {
    name: re.compile(rb"</" + name + rb"(?=[\t\n\f\r />])", re.IGNORECASE)
    for name in (
        b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes",
        b"plaintext",
    )
}  # fmt: skip
# A link inside these is shown by a script, or not as a link, or only where scripts are disabled.
_EXCLUDED = frozenset({b"template", b"svg", b"math", b"select", b"noscript"})
_TARGETS: dict[bytes, dict[bytes, FindingKind]] = {
    b"a": {b"xlink:href": "link"},
    b"area": {b"href": "link"},
    b"button": {b"formaction": "form-post"},
    b"input": {b"formaction": "form-post"},
    b"iframe": {b"src": "frame", b"srcdoc": "srcdoc"},
    b"frame": {b"src": "frame"},
    b"base": {b"href": "base"},
}
# Relations that lead a person, or a crawler, to another page of the site, unless combined with one of `_NOT_FOLLOWED`.
# Others name a page for search engines and feed readers, such as canonical: what they name must stay as it is.
FOLLOWED = frozenset({
    b"next", b"prev", b"previous", b"first", b"last", b"start", b"up", b"contents", b"index", b"chapter", b"section",
    b"help", b"author", b"license", b"copyright", b"glossary", b"bookmark", b"home", b"top", b"prerender", b"tag",
    b"archives",
})  # fmt: skip
_NOT_FOLLOWED = frozenset({b"stylesheet", b"icon", b"manifest", b"preload", b"modulepreload", b"search"})
_SPACE = b"\t\n\f\r "
_QUOTES = b"\"'"
# Inside these the elements of `_RAW` may be ordinary ones. Text without anything like a tag is the same either way, and
# so is a section `<![CDATA[`, which drawing programs put into their style sheets.
_FOREIGN = frozenset({b"svg", b"math"})
_FOREIGN_OR_SELECT = _FOREIGN | {b"select"}
_SAME_EITHER_WAY = re.compile(rb"[^<]*+(?:<!\[CDATA\[(?:[^<\]]++|\](?!\]>))*+\]\]>[^<]*+)*+")
_DEEPEST = 100

LONGEST_TAG = 262_144
"""A longer tag is passed on, and so is the rest of its page."""
_LONGEST_END = 24
_LONGEST_AMBIGUOUS = 65_536
_LOOK_AHEAD = 3


Attributes = dict[bytes, tuple[int, int, bytes]]
"""The attributes of a tag by name, in their order: start and end of the value with its quotes, and the value."""
_NO_VALUE = (0, 0, b"")


class Scanner:
    """
    Scans one page: `feed` takes its bytes and returns those that are settled, and the findings in them.

    *steps* say after which links something is to be added: after as many places for it as the first says, after as many
    more as the second, and so on. Most places are of no use to who adds little.
    """

    def __init__(self, steps: Iterator[int] | None = None) -> None:
        self._steps = steps if steps is not None else repeat(1)
        self._until_next = next(self._steps, 0)
        self._held: list[bytes] = []
        self._held_size = 0
        # Whether the held bytes cannot be settled before a ">" comes.
        self._unfinished = False
        self._inside: bytes | None = None
        self._excluded: list[bytes] = []
        self._endless: set[bytes] = set()
        self._done = False
        self._begun = False
        self._headed = False
        self._ended = False
        self._blank = True
        self._script = [False, False]
        # Whether the open link, if there is one, follows another with only white space between.
        self._in_row = False
        # A script takes over the elements of the page: from here on nothing is added after links.
        self._hydrated = False
        self._scripted = False
        # What "body-end" says about scripts.
        self._runs = b""
        # The page has a policy of its own, which may forbid our style, or cannot be scanned exactly: nothing is added
        # from here on.
        self._is_forbidden = False

    def feed(self, data: bytes, *, final: bool) -> tuple[bytes, list[Finding]]:
        """Take the next piece of the page; return the bytes that are now settled, and the findings in them."""
        if self._held:
            self._held.append(data)
            self._held_size += len(data)
            # Scanning an unfinished tag again before its ">" has come would take quadratic time.
            if self._unfinished and not final and b">" not in data and self._held_size <= LONGEST_TAG:
                return b"", []
            data = b"".join(self._held)
            self._held.clear()
        if self._done:
            return data, []
        findings: list[Finding] = []
        self._unfinished = True
        if not self._begun and not self._begin(data, findings, final=final):
            self._unfinished = False
            self._held.append(data)
            self._held_size = len(data)
            return b"", []
        raw_text: list[tuple[int, int]] | None = [] if b"referrerpolicy" in data.lower() else None
        settled = self._scan(data, findings, raw_text, final=final)
        if raw_text is not None:
            _note_policies(data, settled, raw_text, findings)
        self._blank = self._blank and not data.strip()
        if settled < len(data):
            if final or len(data) - settled > LONGEST_TAG:
                self._done = True
                return data, findings
            self._held.append(data[settled:])
            self._held_size = len(data) - settled
            return data[:settled], findings
        if final and not (self._ended or self._inside or self._excluded or self._is_forbidden or self._blank):
            findings.append((len(data), len(data), "body-end", self._runs))
        return data, findings

    def stop(self) -> None:
        """Find nothing more: what is held, and all that comes, is settled as it is."""
        self._done = True
        self._unfinished = False

    def _begin(self, data: bytes, findings: list[Finding], *, final: bool) -> bool:
        """Find where the head begins, or would begin; return False where more of the page must come first."""
        prologue = _PROLOGUE.match(data)
        assert prologue is not None
        at = prologue.end()
        if not final and len(data) <= LONGEST_TAG and _PROLOGUE_GOES_ON.match(data, at):
            return False
        self._begun = True
        findings.append((at, at, "head-start", b""))
        return True

    def _scan(  # noqa: C901, PLR0912, PLR0915 - the loop of every page
        self,
        data: bytes,
        findings: list[Finding],
        raw_text: list[tuple[int, int]] | None,
        *,
        final: bool,
    ) -> int:
        """
        Add what is found in *data* to *findings*; return up to where it is settled.

        *raw_text* gets the ranges that are no markup.
        """
        position = 0
        add, length = findings.append, len(data)
        while True:
            if self._inside is not None:
                begin, position = position, self._leave_raw(data, position)
                if raw_text is not None:
                    raw_text.append((begin, position))
                if self._inside is not None:
                    return position
            is_excluded = self._is_excluded
            at = length
            until_next, in_row = self._until_next, self._in_row
            last: re.Match[bytes] | None = None
            ends = 0
            # From link to link, up to anything else.
            for token in _TOKEN.finditer(data, position):
                group = token.lastindex
                if group is None:
                    at = token.start()
                    break
                if group < _END_OF_LINK:
                    start, end = token.span(_PLAIN_TARGET)
                    add((start - 1, end + 1, "plain-link", data[start:end]))
                    group += _END_OF_LINK - _END_OF_PLAIN
                    last, ends = token, _END_OF_PLAIN
                elif group >= _OPENED:
                    at = token.start()
                    start, end = token.span(_TARGET)
                    if start < end:
                        raw = data[start + 1 : end - 1] if data[start] in _QUOTES else data[start:end]
                        is_plain = data[at:start] == b"<a href=" and data.startswith(b">", end)
                        kind: FindingKind = "plain-link" if is_plain else "link"
                        add((start, end, kind, attribute_text(raw) if b"&" in raw else raw))
                    group -= _OPENED - _END_OF_LINK + 1
                    if group < _END_OF_LINK:
                        last, ends = token, 0
                        continue
                    last, ends = token, _END_OF_WHOLE
                else:
                    last, ends = token, _END_OF_LINK
                if group == _END_OF_LINK and not final and length - token.end() < _LOOK_AHEAD:
                    self._unfinished = False
                    self._until_next, self._in_row = until_next, in_row
                    return data.rfind(b"<", token.start(), token.end(ends))
                # Not after the last link of a row: style sheets give the last child of a row another look, such as a
                # rounded corner, and the page would look different.
                if not (is_excluded or (in_row and group == _CLOSES)):
                    until_next -= 1
                    if not until_next:
                        place = token.end(ends)
                        add((place, place, "after-link", b""))
                        until_next = next(self._steps, 0)
                in_row = group == _LINK_NEXT
            else:
                at = length
            self._until_next, self._in_row = until_next, in_row
            if last is not None:
                position = last.end(ends)
            skipped = _SKIP.match(data, at)
            assert skipped is not None
            if skipped.end() > at:
                at = position = skipped.end()
                found = _TOKEN.match(data, at)
                if found is not None and found.lastindex is not None:
                    continue
            after = self._token(data, at, findings, final=final) if at < length else None
            if after is None:
                return at
            position = after

    @property
    def _is_excluded(self) -> bool:
        """Whether nothing can be added after links here."""
        return bool(self._excluded) or self._ended or self._hydrated or self._is_forbidden

    def _token(self, data: bytes, at: int, findings: list[Finding], *, final: bool) -> int | None:
        """Handle the tag or declaration at *at*; return where to go on, or None where more must come first."""
        if data.startswith((b"<!", b"<?"), at):
            return self._declaration(data, at)
        tag = _TAG.match(data, at)
        if tag is None:
            return None
        closing, name, end = bool(tag[1]), tag[2].lower(), tag.end()
        if name in _MAY_SHOW_SCRIPT and not (self._hydrated and self._scripted and self._runs):
            self._note_script(name, data, at, end, findings)
        after = end
        if name in _EXCLUDED:
            self._open_or_close(name, closing=closing, self_closed=_SELF_CLOSED.search(tag[0]) is not None)
        elif name in _RAW and not closing:
            if self._excluded and self._excluded[-1] in _FOREIGN_OR_SELECT:
                ambiguous = self._pass_ambiguous(data, name, end, final=final)
                if ambiguous is None:
                    return None
                after = ambiguous
            else:
                self._inside = name
                self._script = [False, False]
        elif not self._excluded and not self._is_forbidden:
            self._note_parts(name, at, findings, closing=closing)
        if not closing:
            self._note_targets(name, data, at, end, findings)
        return after

    def _note_script(self, name: bytes, data: bytes, at: int, end: int, findings: list[Finding]) -> None:
        """Note signs that the page runs scripts, and that one of them owns the page."""
        if name == b"script" and not _DATA.search(data, at, end):
            self._runs = b"script"
        # `_TOKEN` matches no other `<div>`. What stands in one when it comes was written by the same application.
        self._hydrated = self._hydrated or name in _SHELLS or _HYDRATED.search(data, at, end) is not None
        if not self._scripted and self._hydrated:
            self._scripted = True
            findings.append((at, at, "scripted", b""))

    def _note_parts(self, name: bytes, at: int, findings: list[Finding], *, closing: bool) -> None:
        """Note where the head and the body of the page end."""
        if (name == b"head" and closing) or (name == b"body" and not closing):
            if not self._headed:
                self._headed = True
                findings.append((at, at, "head-end", b""))
        elif name in {b"body", b"html"} and closing and not self._ended:
            self._ended = True
            findings.append((at, at, "body-end", self._runs))

    def _note_targets(self, name: bytes, data: bytes, at: int, end: int, findings: list[Finding]) -> None:
        """Note the attributes of a start tag that hold addresses."""
        if name in _TARGETS:
            targets = _TARGETS[name]
            # In the order in which they stand in the tag.
            for attribute, (start, stop, raw) in _attributes(data, at, end).items():
                if attribute in targets and start < stop:
                    findings.append((start, stop, targets[attribute], _text(raw)))
        elif name == b"form":
            self._note_form(_attributes(data, at, end), end, findings)
        elif name == b"meta":
            self._note_meta(_attributes(data, at, end), findings)
        elif name == b"link":
            self._note_relation(_attributes(data, at, end), findings)

    @staticmethod
    def _note_form(values: Attributes, end: int, findings: list[Finding]) -> None:
        start, stop, raw = values.get(b"action", _NO_VALUE)
        posts = _word(values, b"method") == b"post"
        action = _text(raw)
        if start < stop:
            findings.append((start, stop, "form-post" if posts else "form-get", action))
        elif b"action" not in values:
            findings.append((end - 1, end - 1, "form-action", b"post" if posts else b"get"))
        if not posts:
            findings.append((end, end, "form-fields", action))

    def _note_meta(self, values: Attributes, findings: list[Finding]) -> None:
        start, stop, raw = values.get(b"content", _NO_VALUE)
        what = _word(values, b"http-equiv")
        if what == b"content-security-policy" and not self._excluded:
            self._is_forbidden = True
        elif what == b"refresh" and start < stop:
            findings.append((start, stop, "refresh", _text(raw)))
        elif _word(values, b"name") == b"referrer" and start < stop:
            findings.append((start, stop, "referrer", _text(raw)))

    @staticmethod
    def _note_relation(values: Attributes, findings: list[Finding]) -> None:
        start, stop, raw = values.get(b"href", _NO_VALUE)
        relations = set(_word(values, b"rel").split())
        if start < stop and relations & FOLLOWED and not relations & _NOT_FOLLOWED:
            kind = _word(values, b"type")
            if not kind or kind.startswith(b"text/html"):
                findings.append((start, stop, "link", _text(raw)))

    def _open_or_close(self, name: bytes, *, closing: bool, self_closed: bool) -> None:
        """
        Note that an element begins or ends in which nothing can be added.

        A template closes everything in it, and nothing in it closes anything around it.
        """
        excluded = self._excluded
        if excluded and excluded[-1] in _FOREIGN and name not in _FOREIGN and not closing:
            # In a drawing these are ordinary elements.
            return
        if name == b"select" and not closing and excluded and excluded[-1] == b"select":
            closing = True
        if not closing:
            if not (self_closed and name in _FOREIGN):
                excluded.append(name)
            # Deeper than any real page: what closes what is no longer certain.
            self._is_forbidden = self._is_forbidden or len(excluded) > _DEEPEST
            return
        outer = len(excluded)
        while outer and excluded[outer - 1] not in {name, b"template"}:
            outer -= 1
        if outer and excluded[outer - 1] == name:
            del excluded[outer - 1 :]

    def _pass_ambiguous(self, data: bytes, name: bytes, position: int, *, final: bool) -> int | None:
        """
        Pass over an element that holds text in HTML and is ordinary in a drawing, where the tree decides which it is.

        Where its text is the same either way it is skipped. Else nothing is added to the page from here on, and the
        element is read as text if it has an end: the drawing may have been left open long ago, and a missed link does
        less harm than a changed script. But a drawing's title may hold elements. Returns None where more must come.
        """
        if name in self._endless:
            return position
        near = position + _LONGEST_AMBIGUOUS
        end = _RAW[name].search(data, position, near) if name != b"plaintext" else None
        tag = _TAG.match(data, end.start()) if end is not None else None
        if tag is None and not final and len(data) - position <= _LONGEST_AMBIGUOUS:
            return None
        if tag is not None and end is not None and _SAME_EITHER_WAY.fullmatch(data, position, end.start()):
            return tag.end()
        self._is_forbidden = True
        is_far = near < len(data) and name != b"plaintext"
        if name != b"title" and (tag is not None or is_far):
            self._inside = name
            self._script = [False, False]
        elif tag is None:
            # No later one has an end either: it is not searched for again.
            self._endless.add(name)
        return position

    def _declaration(self, data: bytes, at: int) -> int | None:
        """Pass over a comment, a doctype or a processing instruction."""
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
        if data.startswith(b"<![CDATA[", at) and self._excluded and self._excluded[-1] in _FOREIGN:
            end = data.find(b"]]>", at)
            if end >= 0 and data.find(b">", at) < end:
                self._is_forbidden = True
            return end + 3 if end >= 0 else None
        if len(data) - at < len(b"<![CDATA[") and b">" not in data[at:]:
            return None
        end = data.find(b">", at)
        return end + 1 if end >= 0 else None

    def _leave_raw(self, data: bytes, position: int) -> int:
        """
        Find the end of an element whose text is not markup.

        Returns the position after its end tag and clears `_inside`. Where the end has not come, returns up to where
        the text is settled: the last bytes may be the start of the end tag.
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
        Find the end of a script, by the standard's odd rule: inside `<!--` a nested `<script>` needs its own end tag.

        Returns up to where the rule was followed, and the end tag if there is one. The rule's state survives the end
        of a piece.
        """
        while True:
            match = _SCRIPT.search(data, position)
            if match is None:
                return position, None
            escaped, doubly = self._script
            token = match[0]
            if token == b"<!--":
                self._script[0] = True
                # The dashes may be those of "-->" as well.
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


def _attributes(data: bytes, at: int, end: int) -> Attributes:
    """Return the attributes of the tag from *at* to *end*."""
    found: Attributes = {}
    name = _TAG_NAME.match(data, at)
    assert name is not None
    position = name.end()
    while match := _EACH.search(data, position, end - 1):
        # The first of two attributes with one name counts.
        raw = match[2]
        key = match[1].lower()
        if raw is None:
            found.setdefault(key, _NO_VALUE)
        else:
            text = raw[1:-1] if raw[:1] in {b'"', b"'"} else raw
            found.setdefault(key, (match.start(2), match.end(2), text))
        position = match.end()
    return found


def _note_policies(data: bytes, settled: int, raw_text: list[tuple[int, int]], findings: list[Finding]) -> None:
    """
    Put the referrer policies of elements among *findings*.

    Any element that loads or links to something may have one; few of them are relevant otherwise.
    """
    found: dict[int, Finding] = {}
    for match in _OWN_POLICY.finditer(data, 0, settled):
        at = match.start()
        tag = _TAG.match(data, max(0, data.rfind(b"<", 0, at)))
        if tag is None or tag[1] or tag.end() <= at or any(begin <= at < end for begin, end in raw_text):
            continue
        start, stop, value = _attributes(data, tag.start(), tag.end()).get(b"referrerpolicy", _NO_VALUE)
        if start < stop:
            found[start] = (start, stop, "referrer", _text(value))
    if found:
        findings.extend(found.values())
        findings.sort(key=lambda find: find[0])


def _word(values: Attributes, name: bytes) -> bytes:
    return _text(values.get(name, _NO_VALUE)[2]).strip(_SPACE).lower()


def _text(raw: bytes) -> bytes:
    return attribute_text(raw) if b"&" in raw else raw
