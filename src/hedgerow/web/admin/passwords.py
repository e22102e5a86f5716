"""
Hashes of passwords with Argon2id, in the usual text form: `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`.

The costs are those that OWASP recommends as a minimum for this function. They are part of the text, so a later version
may raise them without making stored hashes useless.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from functools import cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from hedgerow.errors import HedgerowError

MIN_LENGTH = 10
"""Characters of a password."""
_MEMORY, _PASSES, _LANES = 19_456, 2, 1
_SALT, _HASH = 16, 32
_FORM = re.compile(
    r"\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=(\d{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)", re.ASCII
)


def hash_password(password: str) -> str:
    """Return the text to store for a password."""
    salt = secrets.token_bytes(_SALT)
    digest = _digest(password, salt, _HASH, _MEMORY, _PASSES, _LANES)
    return f"$argon2id$v=19$m={_MEMORY},t={_PASSES},p={_LANES}${_encode(salt)}${_encode(digest)}"


def is_password(password: str, stored: str) -> bool:
    """Return whether *stored* was made from *password*. Takes some tens of milliseconds."""
    found = _FORM.fullmatch(stored)
    if found is None:
        return False
    try:
        salt, digest = _decode(found[4]), _decode(found[5])
        own = _digest(password, salt, len(digest), *(int(found[n]) for n in (1, 2, 3)))
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(own, digest)


@cache
def nobody() -> str:
    """Return the hash of no password. It is compared for unknown users: the time does not tell which names exist."""
    return hash_password(secrets.token_hex(16))


def _digest(password: str, salt: bytes, length: int, memory: int, passes: int, lanes: int) -> bytes:
    try:
        function = Argon2id(salt=salt, length=length, iterations=passes, lanes=lanes, memory_cost=memory)
        return function.derive(password.encode("utf-8", "surrogateescape"))
    except UnsupportedAlgorithm:
        raise HedgerowError("this build of cryptography has no Argon2; install its wheel") from None


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
