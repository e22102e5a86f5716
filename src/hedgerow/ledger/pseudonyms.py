"""
Addresses as the ledger stores them, if the operator does not want full ones: truncated, or as keyed hashes.

A pseudonym has the form of an address, so reports, replays and limits read it like any other. All rows of a visitor
have the same one: `prefix_of` of a stored address is the stored key of its visitor.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

from hedgerow.core.address import network_of, parse_address, prefix_of
from hedgerow.core.ip_bytes import format_ipv6

AddressForm = Literal["full", "truncated", "hashed"]
Hide = Callable[[str], str]
"""Returns the stored form of an address, or of the key of a visitor. Other texts stay as they are."""

_CACHED = 65_536
_ADDRESS = re.compile(
    r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7})(?:/\d{1,3})?(?![\w:])"
)
_PRIVATE = b"\xfd"
"""The first byte of IPv6 addresses that nobody has on the Internet."""


def address_hider(form: AddressForm, key: str) -> Hide | None:
    """Return what hides addresses, or None if they are stored as they are. *key* is the secret of the hashes."""
    if form == "full":
        return None
    return lru_cache(_CACHED)(_of_keys(_truncated if form == "truncated" else _hasher(key.encode())))


def hide_in_text(text: str, hide: Hide) -> str:
    """Hide each address in a sentence or in JSON."""
    return _ADDRESS.sub(lambda found: hide(found[0]), text)


def _of_keys(hide: Hide) -> Hide:
    def hidden(text: str) -> str:
        address, slash, _ = text.partition("/")
        if parse_address(address) is None:
            return text
        return prefix_of(hide(address)) if slash else hide(address)

    return hidden


def _truncated(address: str) -> str:
    """
    Return the first address of the network, IPv4 /24 or IPv6 /48.

    >>> _truncated("192.0.2.7"), _truncated("2001:db8:1:2::3")
    ('192.0.2.0', '2001:db8:1::')
    """
    return network_of(address).partition("/")[0] or address


def _hasher(key: bytes) -> Hide:
    secret = blake2b(key, person=b"hedgerow-address").digest()

    def hashed(address: str) -> str:
        # The visitor is in the first half, as in an IPv6 address: those of one /64 stay together.
        visitor = blake2b(prefix_of(address).encode(), key=secret, digest_size=7).digest()
        return format_ipv6(_PRIVATE + visitor + blake2b(address.encode(), key=secret, digest_size=8).digest())

    return hashed
