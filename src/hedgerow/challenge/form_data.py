"""
A form's data, carried across a challenge: read from the request that was stopped, sent again when it is solved.

Only what a browser can send again by itself: fields in UTF-8, no files. Anything else is not carried, and the visitor
is told so.
"""

from __future__ import annotations

import re
from email.message import Message
from typing import Literal
from urllib.parse import parse_qsl

import msgspec

Coding = Literal["urlencoded", "multipart"]

_MOST_FIELDS = 1_000
_URLENCODED = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"
_MEDIA: dict[str, Coding] = {_URLENCODED: "urlencoded", _MULTIPART: "multipart"}
_DISPOSITION = re.compile(rb'form-data;\s*name="([^"\r\n]*)"(?:;\s*filename="([^"\r\n]*)")?\s*', re.IGNORECASE)


class Form(msgspec.Struct, frozen=True, array_like=True):
    """Fields in their order; None stands for a file that was not chosen."""

    coding: Coding
    fields: tuple[tuple[str, str | None], ...]


def coding_of(media: str) -> Coding | None:
    """How the body of a request with this Content-Type is written, where it is a form's."""
    return _MEDIA.get(media.partition(";")[0].strip().lower())


def read_form(media: str, body: bytes) -> Form | None:
    """
    The form in *body*, whose Content-Type is *media*, or None where a browser could not send the same again.

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
    # No page can hold this character, so no page could send it again.
    if fields is None or any("\0" in name or "\0" in (value or "") for name, value in fields):
        return None
    return Form(coding, tuple(fields))


def _urlencoded(body: bytes) -> list[tuple[str, str | None]]:
    if not body:
        return []
    text = body.decode("ascii")
    pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_MOST_FIELDS)
    return list(pairs)


def _multipart(boundary: str, body: bytes) -> list[tuple[str, str | None]] | None:
    if not boundary:
        return None
    delimiter = b"\r\n--" + boundary.encode("latin-1")
    before, *parts = (b"\r\n" + body).split(delimiter)
    if before or not parts or not parts[-1].startswith(b"--") or len(parts) > _MOST_FIELDS:
        return None
    fields: list[tuple[str, str | None]] = []
    for part in parts[:-1]:
        head, separator, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        found = next(
            (
                _DISPOSITION.fullmatch(line.partition(b":")[2].strip())
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-disposition:")
            ),
            None,
        )
        if not separator or found is None:
            return None
        name = _unescape(found[1].decode())
        if found[2] is None:
            fields.append((name, value.decode()))
        elif found[2] or value:
            # A file: no page can send it again.
            return None
        else:
            fields.append((name, None))
    return fields


def _unescape(name: str) -> str:
    """A field's name as it is; browsers escape quotes and line breaks in it, and nothing else."""
    return name.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
