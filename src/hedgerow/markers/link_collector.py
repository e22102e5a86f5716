"""Collects where the links of a page lead that is passed on unchanged."""

from __future__ import annotations

from collections.abc import Iterator

from hedgerow.markers.html.content_coding import BrokenCoding, Decoder
from hedgerow.markers.html.scanner import Scanner
from hedgerow.markers.resolve import PageLocation, resolve_all
from hedgerow.markers.rules import may_be_page

_MAX_BYTES = 4_000_000
_SCANNED_AT_ONCE = 32_768


class LinkCollector:
    """
    Takes the bytes of the page at *location*, which *decoder* decodes if there is one.

    *targets* are the pages of this site that its links lead to, in their order, up to *most*. What follows the first
    four million bytes is not looked at.
    """

    def __init__(self, location: PageLocation, decoder: Decoder | None, most: int) -> None:
        self.targets: dict[bytes, None] = {}
        self._location = location
        self._decoder = decoder
        self._most = most
        self._scanner = Scanner(iter(()))
        self._scanned = 0

    def feeding(self, data: bytes) -> Iterator[None]:
        """Take the next bytes, in steps of a few milliseconds. Damaged ones end the collection."""
        try:
            for text in [data] if self._decoder is None else self._decoder.feed(data):
                for start in range(0, len(text), _SCANNED_AT_ONCE):
                    if len(self.targets) >= self._most or self._scanned > _MAX_BYTES:
                        return
                    self._scan(text[start : start + _SCANNED_AT_ONCE])
                    yield
        except BrokenCoding:
            self._most = 0

    def _scan(self, text: bytes) -> None:
        self._scanned += len(text)
        urls = []
        for _, _, kind, value in self._scanner.feed(text, final=False)[1]:
            if kind == "base" and (found := resolve_all([value], self._location)[0]) is not None:
                self._location = self._location._replace(target=found[0])
            elif kind in {"link", "plain-link"}:
                urls.append(value)
        for found in resolve_all(urls, self._location):
            if found is not None and may_be_page(found[0].decode("latin-1")):
                self.targets[found[0]] = None
