r"""
Where a redirect may lead: a path of this site, whatever a browser makes of its spelling.

The target is what the visitor asked for, sealed in its ticket; but anybody can make a person ask for
`https://example.org//elsewhere.example/`, and browsers read `\\` as `/` and skip tabs and line breaks.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HOME = "/"
_LONGEST = 16_384
# What a URL is written in; everything else has been escaped by an honest client.
_VISIBLE = re.compile(r"[!-~]+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def local_target(target: str) -> str | None:
    r"""
    *target* as a redirect of ours may name it, or None where it might lead to another site.

    >>> local_target("/a?b=c"), local_target("//host/"), local_target("/\\\\host"), local_target("/..//host")
    ('/a?b=c', None, None, None)
    """
    if not target.startswith("/") or len(target) > _LONGEST or not _VISIBLE.fullmatch(target):
        return None
    target = target.partition("#")[0]
    path, question, query = target.partition("?")
    # Escaped once or twice: some proxies undo an escape before they look at dots and slashes.
    spelling = path
    for _ in range(3):
        if _leads_away(spelling):
            return None
        if "%" not in spelling:
            break
        spelling = unquote(spelling)
    return path + question + query.replace("\\", "%5C")


def _leads_away(path: str) -> bool:
    """Whether a path, once its dots are resolved, begins with what names a host; or holds what browsers drop."""
    if _CONTROL.search(path):
        return True
    slashes = path.replace("\\", "/")
    kept: list[str] = []
    segments = slashes.split("/")[1:]
    for segment in segments:
        if segment == "..":
            kept = kept[:-1]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in {".", ".."}:
        # `/a/.` is `/a/`.
        kept.append("")
    return "\\" in path or slashes.startswith("//") or (len(kept) > 1 and not kept[0])
