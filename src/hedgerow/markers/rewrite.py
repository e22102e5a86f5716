"""
Rewrite a page: its links are sealed for one visitor, hidden links are added, and every other byte stays.

A page first becomes a `Skeleton`: literals, with gaps for what differs between visitors. This needs no key and no
visitor, so it is done once for all visitors who get the same page (`SkeletonCache`). Then the gaps are filled for one.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Literal

from hedgerow.core.visit import MarkerKind
from hedgerow.markers.html.scanner import Finding, FindingKind, Scanner
from hedgerow.markers.resolve import PageLocation, resolve, resolve_all
from hedgerow.markers.rules import Link, LinkCache, LinkShape, Mode, Placement, Rules
from hedgerow.markers.siv_batch import MEMORY_PER_TEXT, SivPlan
from hedgerow.markers.token import KIND_CODES, PAGE_BYTES, TokenCodec, page_digest

Insert = Literal["address", "base", "style", "trap", "scripted"]
"""
What a gap gets that is the same all over a page for one visitor: the address that the browser shows, the page's base,
the style of hidden links, and the start of such a link. "scripted" adds nothing: it says that a script owns the page.
"""
Segment = tuple[bytes, Literal["", "token"] | Insert, bytes]
"""A literal, and the gap after it: none, an insert, or a token, which seals the bytes."""

_REFRESH = re.compile(rb"(\s*[\d.]*\s*[;,]?\s*(?:[uU][rR][lL]\s*=\s*)?)([\"']?)(.*?)\2?\s*\Z", re.DOTALL)
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
_CHANGES_LINKS = frozenset({"base", "scripted"})
_USUAL_LENGTH = 15
_LITERAL_END: Segment = (b"", "", b"")
_MANY = 8
_MOST_AT_ONCE = 1_000
_MOST_KNOWN = 50_000
# Their number is sealed in two bytes.
_MOST_HIDDEN_LINKS = 0xFFFF
PARAMETER = b"~"
"""The query parameter that carries the token in readable mode."""


@dataclass(slots=True)
class Skeleton:
    """
    A page, or a part of one, with gaps.

    *parts* are its literals and, empty, its gaps. The gaps at *tokens* get *contents*, one each, sealed; those at
    *inserts* get what they name. *plan* is how the codec next to it seals the contents.
    """

    parts: list[bytes]
    tokens: list[int]
    contents: list[bytes]
    inserts: list[tuple[int, Insert]]
    plan: tuple[TokenCodec, SivPlan] | None = None

    def segments(self) -> Iterator[Segment]:
        gaps: dict[int, Segment] = {
            at: (b"", "token", sealed) for at, sealed in zip(self.tokens, self.contents, strict=True)
        }
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
        return 400 + 75 * len(self.parts) + MEMORY_PER_TEXT * len(self.tokens)


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

    def skeleton(self, page: bytes, location: object, make: Callable[[bytes], Skeleton]) -> Skeleton:
        """Return the skeleton of a whole *page*: from the cache, or from *make*."""
        key = (len(page), page[:: len(page) // self._SAMPLE + 1], location)
        with self._lock:
            known = self._pages.get(key)
            if known is not None and known[0] == page:
                self._pages.move_to_end(key)
                return known[1]
        made = make(page)
        if len(page) <= self._largest:
            with self._lock:
                self._drop(self._pages.pop(key, None))
                self._pages[key] = (page, made)
                self.used += 2 * len(page) + made.memory
                while self.used > self._memory:
                    self._drop(self._pages.popitem(last=False)[1])
        return made

    def _drop(self, entry: tuple[bytes, Skeleton] | None) -> None:
        if entry is not None:
            self.used -= 2 * len(entry[0]) + entry[1].memory


def quoted(value: bytes) -> bytes:
    """Return *value* as the value of an attribute, in double quotes."""
    return b'"' + value.replace(b"&", b"&amp;").replace(b'"', b"&quot;") + b'"'


def readable_address(target: bytes, token: bytes = b"") -> bytes:
    """Return the address of *target* in readable mode, up to its token or with it."""
    return target + (b"&" if b"?" in target else b"?") + PARAMETER + b"=" + token


def _is_below_root(target: bytes) -> bool:
    return target.partition(b"?")[0].rfind(b"/") > 0


def _folder(location: PageLocation) -> bytes:
    """Return what relative links depend on: the whole path, because `?page=2` does."""
    return location.host + location.target.partition(b"?")[0]


def _segments(link: Link) -> Sequence[Segment]:
    return ((link[0], "token", link[1]), (link[2], "", b"")) if link else ()


class PageRewriter:
    """
    Rewrites one page for one visitor: `feed` takes its bytes and returns those that are settled.

    The page is at *location*; its links are issued to *issued_to* and have *parent* as their parent page. *shown_at* is
    the opaque address by which the page was asked for, if it was. Then the browser must be told the page's base, and
    links within the page must lead to that address.
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
        shown_at: bytes = b"",
    ) -> None:
        self.location = location
        self.issued_to = issued_to
        self.parent = parent
        self.codec = codec
        self.is_marked = bool(shown_at)
        self.needs_base = self.is_marked and _is_below_root(location.target)
        """Whether the browser would resolve relative links in the wrong folder: the page is not in its top folder."""
        self.is_scripted = False
        """Whether a script owns the page, as far as it has been fed."""
        self._rules = rules
        self._prefix = prefix
        self._cache = cache
        self._is_fragment = False
        self._placement: Placement | None = None
        self._inserts: dict[Insert, bytes] = {"address": shown_at}
        if self.needs_base:
            self._inserts["base"] = b"<base href=" + quoted(location.target) + b">"
        self._scanner: Scanner | None = None

    def add_bait(self, style: bytes, link_start: bytes, placement: Placement, every: int) -> None:
        """Add hidden links to the page: *style* stands before the first, and each begins with *link_start*."""
        self._inserts["style"] = style
        self._inserts["trap"] = link_start
        self._placement = placement
        self._every = every

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
        return None

    def feed(self, data: bytes, *, final: bool) -> bytes:
        if self._scanner is None and final:
            variant = "fragment" if self._is_fragment else self.is_marked
            return self._fill(self._cache.skeleton(data, (self.location, variant, self._rules), self._whole))
        if self._scanner is None:
            self._begin()
            self._scanner = Scanner()
            # Until the page has named a base of its own, or has not; a page that needs none does not wait.
            self._waiting: list[tuple[bytes, list[Finding]]] | None = [] if self.needs_base else None
            self._waiting_size = 0
        settled, findings = self._scanner.feed(data, final=final)
        if self._waiting is None:
            return self._fill(self._cut(settled, findings))
        self._waiting.append((settled, findings))
        self._waiting_size += len(settled)
        is_known = any(finding[2] in _AFTER_BASE for finding in findings)
        if not is_known and not final and self._waiting_size < self._FAR:
            return b""
        waiting, self._waiting = self._waiting, None
        has_base = self._names_base(waiting)
        return b"".join([self._fill(self._cut(part, found, has_base=has_base)) for part, found in waiting])

    def _fill(self, skeleton: Skeleton) -> bytes:
        parts = skeleton.parts.copy()
        if skeleton.contents:
            for at, token in zip(*self._tokens(skeleton), strict=True):
                parts[at] = token
        for at, name in skeleton.inserts:
            if name == "scripted":
                self.is_scripted = True
            else:
                parts[at] = self._inserts[name]
        return b"".join(parts)

    def _tokens(self, skeleton: Skeleton) -> tuple[Sequence[int], Sequence[bytes]]:
        """Return the gaps of the tokens, and the tokens: a few are sealed one by one, more of them all at once."""
        if len(skeleton.contents) < _MANY:
            return skeleton.tokens, self.codec.sealer(self.issued_to, self.parent)(skeleton.contents)
        if skeleton.plan is None or skeleton.plan[0] is not self.codec:
            skeleton.plan = (self.codec, self.codec.plan(skeleton.contents, skeleton.tokens))
        plan = skeleton.plan[1]
        return plan.places, plan.seal(self.issued_to + self.parent)

    def _whole(self, page: bytes) -> Skeleton:
        self._begin()
        findings = Scanner().feed(page, final=True)[1]
        return self._cut(page, findings, has_base=self.needs_base and self._names_base([(page, findings)]))

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
        self._relative_to = _folder(self.location) if not self._is_fragment else self.location.host + b" fragment"
        # A script that owns the page may open its links itself and look at their addresses.
        self._is_script_page = False
        self._known: LinkCache = self._rules.known_links
        self._shape: LinkShape = (self._prefix, _USUAL_LENGTH)
        self._is_styled = False
        self._hidden_links = 0
        # The next hidden link stands after the link with which this would be 0; never, where it is 0 already.
        self._until_next = 1 if self._placement in {"spread", "links"} else 0

    def _cut(self, data: bytes, findings: Sequence[Finding], *, has_base: bool = False) -> Skeleton:
        """Cut *data* at *findings*; *has_base* says that our base element is not needed."""
        change: Sequence[Segment]
        skeleton = Skeleton([], [], [], [])
        parts, tokens, contents = skeleton.parts, skeleton.tokens, skeleton.contents
        # What follows the last change and belongs before the next literal.
        behind = b""
        position = 0
        known, until_next = self._known, self._until_next
        for index, (start, end, kind, text) in enumerate(findings):
            if kind == "link":
                key = self._key(text)
                link = known.get(key)
                if link is None and text[:1] not in _FRAGMENT:
                    self._learn(islice(findings, index, None))
                    link = known[key]
                if link:
                    opening, sealed, closing, self._shape = link
                    parts.append(behind + data[position:start] + opening)
                    tokens.append(len(parts))
                    contents.append(sealed)
                    parts.append(b"")
                    behind = closing
                    position = end
                    continue
                change = self._fragment_link(data, start, text) if link is None else ()
            elif kind == "after-link" and until_next != 1:
                until_next -= 1
                continue
            elif start == end:
                self._until_next = until_next
                change = self._addition(kind, text) if kind != "head-start" or not has_base else ()
                known, until_next = self._known, self._until_next
            else:
                change = self._new_value(kind, text)
            if not change:
                continue
            before = behind + data[position:start]
            for literal, gap, sealed in change[:-1]:
                parts.append(before + literal)
                before = b""
                if gap == "token":
                    tokens.append(len(parts))
                    contents.append(sealed)
                elif gap:
                    skeleton.inserts.append((len(parts), gap))
                parts.append(b"")
            behind = before + change[-1][0]
            position = end
        self._until_next = until_next
        parts.append(behind + data[position:])
        return skeleton

    def _addition(self, kind: FindingKind, text: bytes) -> Sequence[Segment]:
        """Return what is added to the page where something can be added."""
        if kind == "form-fields":
            return self._form_field(text)
        if kind == "form-action":
            link = self._own_link("form-post" if text == b"post" else "form-get")
            return _segments((b" action=" + link[0], *link[1:])) if link else ()
        if kind == "head-start":
            return ((b"", "base", b""), _LITERAL_END) if self.needs_base else ()
        if kind == "scripted":
            self._is_script_page, self._known = True, self._rules.known_links_of_scripts
            return (b"", "scripted", b""), _LITERAL_END
        if self._placement is None or self._hidden_links == _MOST_HIDDEN_LINKS:
            return ()
        style: tuple[Segment, ...] = () if self._is_styled else ((b"", "style", b""),)
        self._is_styled = True
        if kind == "head-end":
            return (*style, _LITERAL_END)
        self._hidden_links += 1
        if kind == "after-link":
            doublings = (self._hidden_links - 1) // 4 if self._placement == "spread" else 0
            self._until_next = self._every << doublings
        return (*style, *self._hidden_link())

    def _hidden_link(self) -> Sequence[Segment]:
        """Return a link that looks like the one before it: as long, and in readable mode with that one's address."""
        address, length = self._shape
        sealed = KIND_CODES["trap"] + self._hidden_links.to_bytes(2, "big").ljust(length, b"\0")
        return (b"", "trap", b""), (address, "token", sealed), (b'"></a>', "", b"")

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
            if match is None or not match[3]:
                return ()
            lead = match[1] if b"=" in match[1] else match[1] + b"url="
            return _segments(self._links("link", [match[3]], lead)[0])
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
            if kind == "link" and text[:1] not in _FRAGMENT and (key := self._key(text)) not in self._known:
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
        return self._marked(kind, found, lead)

    def _is_independent(self, text: bytes) -> bool:
        """Return whether a link leads to the same target whatever it is relative to."""
        if self._is_elsewhere and not text.lstrip().lower().startswith((b"http", b"//")):
            return False
        return not self._is_fragment or _ABSOLUTE.match(text) is not None

    def _marked(self, kind: FindingKind, found: Sequence[tuple[bytes, bytes] | None], lead: bytes = b"") -> list[Link]:
        """Return what links become that lead to the targets and fragments *found*, or to another site (None)."""
        names = [one[0].decode("latin-1") if one is not None else "" for one in found]
        modes = self._modes_of(names)
        digests = [page_digest(name) if mode == "readable" else b"" for name, mode in zip(names, modes, strict=True)]
        return [
            self._link(kind, *one, mode, digest, lead) if one is not None else ()
            for one, mode, digest in zip(found, modes, digests, strict=True)
        ]

    def _modes_of(self, targets: Sequence[str]) -> list[Mode]:
        modes = self._rules.modes_of(targets)
        return ["readable" if mode == "opaque" else mode for mode in modes] if self._is_script_page else modes

    def _link(self, kind: FindingKind, target: bytes, fragment: bytes, mode: Mode, digest: bytes, lead: bytes) -> Link:
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

        Where the page was asked for by an opaque link the browser has that address already. Where the base is another
        site, nothing of ours leads back.
        """
        if self.is_marked or self._is_fragment or self._is_elsewhere:
            return ()
        return self._marked(kind, [(self.location.target, b"")])[0]

    def _form_field(self, action: bytes) -> Sequence[Segment]:
        """Return the hidden field that carries the token of a form in readable mode which is sent as a query."""
        if self._is_elsewhere or (self._is_fragment and not _ABSOLUTE.match(action)):
            return ()
        found = resolve(action, self._base) if action else (self.location.target, b"")
        if found is None or self._modes_of([found[0].decode("latin-1")]) != ["readable"]:
            return ()
        path = found[0].partition(b"?")[0].decode("latin-1")
        opening = b'<input type="hidden" name="' + PARAMETER + b'" value="'
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
                self._relative_to = self.location.host + b" elsewhere"
            return ()
        self._base = self.location._replace(target=found[0])
        self._relative_to = _folder(self._base)
        return ((quoted(found[0]), "", b""),) if self.is_marked else ()

    def _inner_page(self, text: bytes) -> Sequence[Segment]:
        """Return the page inside a `srcdoc` attribute, with all that an attribute needs escaped."""
        inner = PageRewriter(
            self._base, self._rules, self._prefix, self._cache, self.codec, self.issued_to, self.parent
        )
        inner._is_fragment = self._is_fragment
        inner._begin()
        inner._is_elsewhere, inner._relative_to = self._is_elsewhere, self._relative_to
        findings = [finding for finding in Scanner().feed(text, final=True)[1] if finding[0] != finding[1]]
        segments = list(inner._cut(text, findings).segments())
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
