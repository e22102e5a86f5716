"""
Rewrite a page: every link that stays on the site is sealed for one visitor; every other byte stays.

A page is first prepared (`marker/prepare.py`), for nobody in particular, and then *written*, for this visitor: tokens
into the gaps. A page that comes again, for whomever, need not be prepared again (`SkeletonCache`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock

from hedgerow.markers.html.scanner import Find, Scanner
from hedgerow.markers.prepare import Fill, Prepared, Preparer
from hedgerow.markers.siv_batch import COST
from hedgerow.markers.token import TokenCodec

_TELLING = frozenset({"base", "head", "spot", "end"})
_MANY = 8


class PageWriter:
    """
    Writes a prepared page for one visitor, its gaps filled with *fills*.
    """

    def __init__(self, seal: TokenCodec, issued_to: bytes, parent: bytes, fills: Mapping[Fill, bytes]) -> None:
        self._seal = seal
        self._minted_for = issued_to
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


class SkeletonCache:
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
        self, make_preparer: Callable[[], Preparer], writer: PageWriter, skeletons: SkeletonCache, place: object
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
