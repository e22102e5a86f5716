"""
Parsed headers: user agent, host, kind, origin and anomalies of a request, with a cache.

They depend on a few header values, which repeat, and on the order of header names, which repeats as well. So they are
computed once per combination. The names in order (the shape) determine which values to extract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from hedgerow.core.request_kind import is_prefetch, kind_claimed, origin_of
from hedgerow.core.visit import Kind, Origin
from hedgerow.request.header_anomalies import find_anomalies

_RELEVANT = (
    b"user-agent", b"host", b"accept", b"accept-language", b"accept-encoding", b"sec-ch-ua", b"sec-fetch-mode",
    b"sec-fetch-dest", b"sec-fetch-site", b"sec-purpose", b"purpose", b"x-moz", b"upgrade",
)  # fmt: skip
_MAX_ENTRIES = 1 << 12
# A client chooses the length of its headers. Long ones are not cached, so that the caches' memory is bounded.
_MAX_VALUES_LENGTH = 1500
_MAX_NAMES_LENGTH = 1000

_Fields = Mapping[bytes, bytes]


class HeaderFacts(NamedTuple):
    """
    What follows from the headers alone.

    *kind* is for a target that looks like a page. *origin* is "" if it depends on the referrer.
    """

    user_agent: str
    host: str
    prefetch: bool
    kind: Kind
    origin: Origin | Literal[""]
    anomalies: tuple[str, ...]


_shapes: dict[tuple[bytes, ...], Callable[[_Fields], Any]] = {}
"""Extractor of the relevant values by the names of all headers. Cleared when full."""
_cache: dict[tuple[Any, ...], HeaderFacts] = {}
"""Results by shape and values. Cleared when full."""


def parse_headers(fields: _Fields, scheme: str, version: str, *, direct: bool) -> HeaderFacts:
    """
    Parse *fields*, the headers of a request in the order received.

    *scheme* is the client's ("" if unknown), *version* that of HTTP. *direct* is true if no proxy of the site stands in
    between.
    """
    names = tuple(fields)
    shape = _shapes.get(names)
    if shape is None:
        if sum(map(len, names)) > _MAX_NAMES_LENGTH:
            return _parse(fields, scheme, version, direct=direct)
        shape = _extractor(fields)
        if len(_shapes) >= _MAX_ENTRIES:
            _shapes.clear()
        _shapes[names] = shape
    combination = (shape, shape(fields), scheme, version, direct)
    facts = _cache.get(combination)
    if facts is None:
        facts = _parse(fields, scheme, version, direct=direct)
        if len(scheme) + sum(len(fields.get(name, b"")) for name in _RELEVANT) <= _MAX_VALUES_LENGTH:
            if len(_cache) >= _MAX_ENTRIES:
                _cache.clear()
            _cache[combination] = facts
    return facts


def _extractor(fields: _Fields) -> Callable[[_Fields], Any]:
    names = [name for name in _RELEVANT if name in fields]
    return itemgetter(*names) if names else lambda _: ()


def _parse(fields: _Fields, scheme: str, version: str, *, direct: bool) -> HeaderFacts:
    host = fields.get(b"host", b"").decode("latin-1")
    prefetch = is_prefetch(fields)
    return HeaderFacts(
        fields.get(b"user-agent", b"").decode("latin-1"),
        host,
        prefetch,
        kind_claimed("page", fields, prefetch=prefetch),
        origin_of(fields, host) if b"sec-fetch-site" in fields else "",
        find_anomalies(fields, scheme=scheme, host=host, version=version, direct=direct),
    )
