"""Clean marks on real documentation: nothing but links changes, and every mark leads to where the link led."""

from __future__ import annotations

import random
import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

from hedgerow.markers.clean import SCRIPT_ELEMENT
from hedgerow.markers.resolve import PageLocation, resolve
from hedgerow.markers.rewrite import PageRewriter, SkeletonCache
from hedgerow.markers.rules import Rules
from hedgerow.markers.token import Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.request.identify import Identifier
from hedgerow.traps.bait import Bait

from .conftest import DOCUMENTATION, missing

QT = Path("/usr/share/qt5/doc")
TOKENS = TokenCodecs([Key(1, bytes(range(64)), 0.0)])
VISITOR = visitor_digest("192.0.2.1")
_MARK = re.compile(rb"(\?|&amp;|&)~=[\w-]{23}\.[\w-]{4}")
_LINK = re.compile(rb'(?:href|src|action)="([^"]*[?&;]~=[\w-]{23}\.[\w-]{4}[^"]*)"')
PAGES = 600
"""Of each documentation."""


@pytest.mark.parametrize("folder", [DOCUMENTATION, QT], ids=["postgresql", "qt"])
def test_nothing_but_links_changes_and_every_mark_opens(folder: Path) -> None:
    pages = sorted(folder.rglob("*.html")) if folder.exists() else []
    if not pages:
        missing(str(folder))
    marks = hidden_links = texts = 0
    identifier = Identifier(tokens=TOKENS, prefix="/~")
    for path in random.Random(1).sample(pages, min(PAGES, len(pages))):
        body = path.read_bytes()
        target = "/" + quote(str(path.relative_to(folder)))
        location = PageLocation(b"http", b"example.org", target.encode())
        page = page_digest(target)
        bait = Bait(VISITOR, page, has_text=True)
        rewriter = PageRewriter(
            location, Rules("clean"), b"/~", SkeletonCache(), TOKENS.of("example.org"), VISITOR, page, at=1.8e9
        )
        rewriter.add_bait(bait.style, bait.link_start, "spread", 3, wrappers=bait.wrappers, text_style=bait.text_style)
        rewriter.add_script()
        marked = rewriter.feed(body, final=True)
        assert bait.wrappers is not None
        befores, afters = (b"|".join(map(re.escape, parts)) for parts in zip(*bait.wrappers, strict=True))
        text_link = rb'(?:%b)([^"]*)">([^<]*)(?:%b)' % (befores, afters)
        hidden = re.compile(re.escape(bait.link_start) + rb'([^"]*)"></a>|' + text_link)
        without = hidden.sub(
            b"", marked.replace(SCRIPT_ELEMENT, b"").replace(bait.style, b"").replace(bait.text_style, b"")
        )
        assert _MARK.sub(b"", without) == body, path
        texts += sum(bool(found[3]) for found in hidden.finditer(marked))
        for link in _LINK.findall(without):
            marks += 1
            target, kind = _opened(identifier, link, location)
            assert target == _plain(link, location), path
            assert kind in {"page", "sequence"}, path
        for found in hidden.finditer(marked):
            hidden_links += 1
            assert _opened(identifier, found[1] or found[2], location)[1] == "trap", path
    assert marks > 10 * PAGES / 2
    assert hidden_links > PAGES
    assert texts > hidden_links / 2


def _opened(identifier: Identifier, link: bytes, location: PageLocation) -> tuple[str, str]:
    """Where a link leads, and what kind of link its mark says it is."""
    found = resolve(unescape(link.decode()).encode(), location)
    assert found is not None
    target, marker, invalid = identifier.unmark(found[0].decode(), "example.org")
    assert marker is not None
    assert not invalid
    assert (marker.issued_to, marker.parent) == (VISITOR, page_digest(location.target.decode()))
    return target, marker.kind


def _plain(link: bytes, location: PageLocation) -> str:
    found = resolve(unescape(_MARK.sub(b"", link).decode()).encode(), location)
    assert found is not None
    return found[0].decode()
