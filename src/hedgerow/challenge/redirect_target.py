r"""
Validation of redirect targets: a redirect may lead only to a path of this site, however a browser reads it.

The target is the address that the visitor requested. Anybody can make a person open
`https://example.org//elsewhere.example/`, and browsers read `\\` as `/` and ignore tabs and line breaks.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HOME = "/"
_MAX_LENGTH = 16_384
# The characters of a URL. Ordinary clients escape everything else.
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def local_target(target: str) -> str | None:
    r"""
    Return *target* in a form that is safe for a redirect, or None if it might lead to another site.

    >>> local_target("/a?b=c"), local_target("//host/"), local_target("/\\\\host"), local_target("/..//host")
    ('/a?b=c', None, None, None)
    """
    if not target.startswith("/") or len(target) > _MAX_LENGTH or not _VISIBLE.fullmatch(target):
        return None
    target = target.partition("#")[0]
    path, question, query = target.partition("?")
    # Unescape up to twice: some proxies unescape before they resolve dots and slashes.
    spelling = path
    for _ in range(3):
        if _leads_away(spelling):
            return None
        if "%" not in spelling:
            break
        spelling = unquote(spelling)
    return path + question + query.replace("\\", "%5C")


def _leads_away(path: str) -> bool:
    """Return whether a path with resolved dots names a host, or contains characters that browsers ignore."""
    if _CONTROL.search(path):
        return True
    slashes = path.replace("\\", "/")
    resolved: list[str] = []
    segments = slashes.split("/")[1:]
    for segment in segments:
        if segment == "..":
            resolved = resolved[:-1]
        elif segment != ".":
            resolved.append(segment)
    if segments[-1] in {".", ".."}:
        # `/a/.` is `/a/`.
        resolved.append("")
    return "\\" in path or slashes.startswith("//") or (len(resolved) > 1 and not resolved[0])
