"""
Lists of files: directory listings of web servers, and package indexes (PEP 503).

What they have in common is that nearly every link is named after what it leads to: a file, or a folder below this one.
Pages that people write name their links otherwise. Programs take such lists apart and fetch every link, so no hidden
link may stand in one.
"""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import unquote

_LONGEST = 65_536
_LINK = re.compile(
    rb"(?><a\s[^<>]*?\bhref\s*+=\s*+(?:\"([^\"<>]*+)\"|'([^'<>]*+)'|([^\s\"'<>]++)))[^<>]*+>((?:(?!</a).){0,400}+)</a",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(r"<[^<>]*+>")
# A name with a digest, as in package indexes.
_HASHED = re.compile(r"#(?:md5|sha\d+)=", re.IGNORECASE)
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}\Z")
_TITLE = re.compile(rb"<title>\s*+(?:index of|directory listing|links for|simple index)", re.IGNORECASE)
_NEARLY_ALL = 0.9
_ENOUGH = 3


def is_listing(page: bytes, target: str, *, final: bool = True) -> bool | None:
    """
    Return whether the page at *target* is a list of files, as far as its beginning *page* tells.

    Returns None if its title is that of a list and more links are needed; with *final* there are no more.

    >>> is_listing(b'<title>Index of /files/</title> <a href="../">../</a> <a href="b.txt">b.txt</a>', "/files/")
    True
    >>> is_listing(b'<a href="b.html">Chapter 2</a>', "/book/")
    False
    """
    path = target.partition("?")[0]
    if not path.endswith("/"):
        return False
    links: dict[str, bool] = {}
    for match in _LINK.finditer(page[:_LONGEST]):
        href = unescape((match[1] or match[2] or match[3] or b"").decode("utf-8", "replace")).strip()
        if href.startswith(("?", "#")) or _leads_up(href, path):
            # Another order of the list, or the folder above.
            continue
        text = " ".join(unescape(_TAG.sub(" ", match[4].decode("utf-8", "replace"))).split())
        links[href] = _is_file_or_folder(href, path) and _names(text, href)
    if len(links) < _ENOUGH:
        if _TITLE.search(page, 0, _LONGEST) is None:
            return False
        if not final:
            return None
    return bool(links) and sum(links.values()) >= _NEARLY_ALL * len(links)


def _leads_up(href: str, path: str) -> bool:
    return href in {".", "./", "..", "../", "/"} or (href.endswith("/") and path.startswith(href))


def _is_file_or_folder(href: str, path: str) -> bool:
    """Return whether a link leads to a folder directly in this one, or to a file: here, or with a suffix elsewhere."""
    if _HASHED.search(href):
        return True
    name = href.partition("#")[0].partition("?")[0]
    if name.endswith("/"):
        return "/" not in name.removeprefix(path).removeprefix("./")[:-1]
    return "/" not in name.removeprefix("./") or _SUFFIX.search(name) is not None


def _names(text: str, href: str) -> bool:
    """Return whether *text* is the name of what *href* leads to. Servers shorten long names."""
    name = unquote(href.partition("#")[0].partition("?")[0].removesuffix("/").rpartition("/")[2])
    short = text.removesuffix("/").removesuffix(">")
    if short.endswith(".."):
        return name.startswith(short.rstrip(".")) and len(short) > 3  # noqa: PLR2004
    return bool(name) and text.removesuffix("/") == name
