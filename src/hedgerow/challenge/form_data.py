"""
Form data that is carried across a challenge: parsed from the stopped request, sent again after the solution.

Only fields that a browser can send again are carried: UTF-8 text, no files. Otherwise the visitor is informed.
"""

from __future__ import annotations

import re
from email.message import Message
from typing import Literal
from urllib.parse import parse_qsl

import msgspec

Coding = Literal["urlencoded", "multipart"]

_MAX_FIELDS = 1_000
_URLENCODED = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_MEDIA: dict[str, Coding] = {_URLENCODED: "urlencoded", _MULTIPART: "multipart"}
_DISPOSITION = re.compile(rb'form-data;\s*name="([^"\r\n]*)"(?:;\s*filename="([^"\r\n]*)")?\s*', re.IGNORECASE)


class Form(msgspec.Struct, frozen=True, array_like=True):
    """Fields in order. The value None stands for a file input without a file."""

    coding: Coding
    fields: tuple[tuple[str, str | None], ...]


def coding_of(media: str) -> Coding | None:
    """Return the encoding of a form with this Content-Type, or None if it is not a form."""
    return _MEDIA.get(media.partition(";")[0].strip().lower())


def read_form(media: str, body: bytes) -> Form | None:
    """
    Parse the form in *body* with Content-Type *media*. Return None if a browser could not send the same again.

    >>> read_form("application/x-www-form-urlencoded", b"a=1&b=x+y").fields
    (('a', '1'), ('b', 'x y'))
    """
    if not media and not body:
        return Form("urlencoded", ())
    coding = coding_of(media)
    if coding is None:
        return None
    header = Message()
    header["content-type"] = media
    if str(header.get_param("charset", "utf-8")).lower() not in {"utf-8", "utf8"}:
        return None
    try:
        fields = (
            _urlencoded(body) if coding == "urlencoded" else _multipart(str(header.get_param("boundary", "")), body)
        )
    except ValueError:
        return None
    # HTML cannot contain NUL, so no page could send it again.
    if fields is None or any("\0" in name or "\0" in (value or "") for name, value in fields):
        return None
    return Form(coding, tuple(fields))


def _urlencoded(body: bytes) -> list[tuple[str, str | None]]:
    if not body:
        return []
    text = body.decode("ascii")
    return list(
        parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_MAX_FIELDS)
    )


def _multipart(boundary: str, body: bytes) -> list[tuple[str, str | None]] | None:
    if not boundary:
        return None
    delimiter = b"\r\n--" + boundary.encode("latin-1")
    before, *parts = (b"\r\n" + body).split(delimiter)
    if before or not parts or not parts[-1].startswith(b"--") or len(parts) > _MAX_FIELDS:
        return None
    fields: list[tuple[str, str | None]] = []
    for part in parts[:-1]:
        head, separator, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        disposition = next(
            (
                _DISPOSITION.fullmatch(line.partition(b":")[2].strip())
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-disposition:")
            ),
            None,
        )
        if not separator or disposition is None:
            return None
        name = _unescape(disposition[1].decode())
        if disposition[2] is None:
            fields.append((name, value.decode()))
        elif disposition[2] or value:
            # A page cannot send a file again.
            return None
        else:
            fields.append((name, None))
    return fields


def _unescape(name: str) -> str:
    # Browsers escape quotes and line breaks in a field's name, and nothing else.
    return name.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
