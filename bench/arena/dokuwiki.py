"""The texts of the arena's wiki: pages of PostgreSQL's documentation in DokuWiki's syntax, with their links."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from lxml import html

PAGES = 300
"""So many are taken, breadth-first from the index, so that every one can be reached."""
_TEXT = 4000
"""Characters of a page's text at most."""


def pages(folder: Path) -> dict[str, str]:
    """The text of every page by its id; the first is the start page."""
    found: dict[str, str] = {}
    names, waiting = {"index.html"}, deque(["index.html"])
    while waiting:
        name = waiting.popleft()
        tree = html.fromstring((folder / name).read_bytes())
        links: dict[str, str] = {}
        for link in tree.iter("a"):
            target, text = (link.get("href") or "").partition("#")[0], " ".join(link.text_content().split())
            if not target.endswith(".html") or "/" in target or not text or not (folder / target).exists():
                continue
            if target not in names and len(names) < PAGES:
                names.add(target)
                waiting.append(target)
            if target in names:
                links.setdefault(target, text)
        found[_id(name)] = _written(tree, links)
    return found


def page_of(target: str) -> str:
    """The id of the page that a request shows; empty where it shows a form, an old version or a file."""
    parts = urlsplit(target)
    asked = parse_qs(parts.query)
    if parts.path not in {"/", "/doku.php"} or asked.keys() - {"id"}:
        return ""
    return asked.get("id", ["start"])[0].lstrip(":").lower()


def _id(name: str) -> str:
    return "start" if name == "index.html" else name.removesuffix(".html").replace("-", "_").lower()


def _written(tree: html.HtmlElement, links: dict[str, str]) -> str:
    title = " ".join((tree.findtext(".//title") or "").split())
    lines, length = [f"====== {title} ======", ""], 0
    for paragraph in tree.iter("p", "pre"):
        text = " ".join(paragraph.text_content().split())
        length += len(text)
        if length > _TEXT:
            break
        lines += [f"<nowiki>{text}</nowiki>", ""]
    lines += [f"  * [[{_id(target)}|{text.replace(']', '').replace('|', '')}]]" for target, text in links.items()]
    return "\n".join(lines)
