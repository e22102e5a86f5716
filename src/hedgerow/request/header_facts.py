"""
What the headers of a request tell: who it says it is, what it is for, where it came from, and what is odd about it.

A few values tell all of it, and they repeat, as does the order in which a client sends its headers. So it is worked out
once for each combination. Which values a request has is known by its shape, the names of its headers in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from hedgerow.core.request_kind import is_prefetch, kind_claimed, origin_of
from hedgerow.core.visit import Kind, Origin
from hedgerow.request.header_anomalies import find_anomalies

_TELLING = (
    b"user-agent", b"host", b"accept", b"accept-language", b"accept-encoding", b"sec-ch-ua", b"sec-fetch-mode",
    b"sec-fetch-dest", b"sec-fetch-site", b"sec-purpose", b"purpose", b"x-moz", b"upgrade",
)  # fmt: skip
_MOST = 1 << 12
# A memory whose entries are as long as a client likes has no bound.
_LONGEST_VALUES = 1500
_LONGEST_NAMES = 1000

_Fields = Mapping[bytes, bytes]


class HeaderFacts(NamedTuple):
    """
    What headers tell. *kind* is what a request for a page is by them, *origin* is empty where only the referrer can
    tell it, and *signs* are what is odd.
    """

    user_agent: str
    host: str
    prefetch: bool
    kind: Kind
    origin: Origin | Literal[""]
    signs: tuple[str, ...]


_shapes: dict[tuple[bytes, ...], Callable[[_Fields], Any]] = {}
"""By the names of a request's headers: what takes the telling values out of them. Emptied when it is full."""
_known: dict[tuple[Any, ...], HeaderFacts] = {}
"""What was told before, by shape and values. Emptied when it is full."""


def parse_headers(fields: _Fields, scheme: str, version: str, *, direct: bool) -> HeaderFacts:
    """
    What *fields*, the headers of a request in the order in which they came, tell.

    *scheme* is what the client used, as far as anybody knows, and *version* that of HTTP. *direct*: no proxy of ours
    stands between.
    """
    names = tuple(fields)
    shape = _shapes.get(names)
    if shape is None:
        if sum(map(len, names)) > _LONGEST_NAMES:
            return _told(fields, scheme, version, direct=direct)
        shape = _shape(fields)
        if len(_shapes) >= _MOST:
            _shapes.clear()
        _shapes[names] = shape
    combination = (shape, shape(fields), scheme, version, direct)
    told = _known.get(combination)
    if told is None:
        told = _told(fields, scheme, version, direct=direct)
        if len(scheme) + sum(len(fields.get(name, b"")) for name in _TELLING) <= _LONGEST_VALUES:
            if len(_known) >= _MOST:
                _known.clear()
            _known[combination] = told
    return told


def _shape(fields: _Fields) -> Callable[[_Fields], Any]:
    telling = [name for name in _TELLING if name in fields]
    return itemgetter(*telling) if telling else lambda _: ()


def _told(fields: _Fields, scheme: str, version: str, *, direct: bool) -> HeaderFacts:
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
