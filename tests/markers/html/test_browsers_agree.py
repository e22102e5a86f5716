"""
Whether browsers see what the scanner sees: html5lib, which parses as they do, is the judge of thousands of nasty pages.

Two questions. A comment at every spot must come out as a comment: then no spot is inside of a tag, an attribute, a
comment, a script, a style, a title. And the page with bait, less the bait, must be the page.

The second has two exceptions, which are accepted:

- Where a link is still open (`<a href="/x">` without an end), bait ends it, as any other link would. A spot behind
  `</a>` never is in such a place, but for a table cell inside of a link; the one at the end may be.
- Where `<b>` and its like were left open over the end of a paragraph, the parser opens them again for the next text or
  link; bait is one, so what follows may be inside of them earlier. So they are not looked at.

And two conditions: a `</a>` before anything else, where there is no body yet, would have bait begin the body, so the
pages get one; and a page of frames has no body at all.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree  # noqa: ICN001 - a name that says what it is

import html5lib
import pytest

from driving import KEY, bait_rewriter, visitors_by_form
from hedgerow.markers.html.scanner import Scanner
from hedgerow.markers.token import Key, TokenCodec

from .nasty import random_page

# html5lib takes twice as long where every line is counted.
pytestmark = pytest.mark.no_cover

SEAL = TokenCodec([Key(1, KEY, 0.0)])
BODY = b"<!DOCTYPE html><html><head><title>x</title></head><body>"
FORMS = [b"", *visitors_by_form(b"abcdef").values()]
"""A visitor for each form of hidden links with text; the empty one gets those without."""
FORMATTING = {"b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"}
_BAIT_CLASSES = re.compile(r"\.([a-z_-]+)\.\1(?:,\.([a-z]{5})\.\2)?\{display:none!important\}")


def parse(page: bytes, *, scripting: bool = True) -> ElementTree.Element:
    with warnings.catch_warnings():
        # html5lib warns of every odd thing that it cannot put into an ElementTree.
        warnings.simplefilter("ignore")
        builder = html5lib.getTreeBuilder("etree", ElementTree, fullTree=True)
        parser = html5lib.HTMLParser(builder, namespaceHTMLElements=False)
        return parser.parse(page, transport_encoding="latin-1", scripting=scripting)


def with_probes(page: bytes, probe: bytes = b"<!--probe-->") -> tuple[bytes, int]:
    finds = Scanner().feed(page, final=True)[1]
    spots = [start for start, _, kind, _ in finds if kind in {"head-end", "after-link", "body-end"}]
    for offset in reversed(spots):
        page = page[:offset] + probe + page[offset:]
    return page, len(spots)


def probes(tree: ElementTree.Element) -> int:
    return sum(comment.text == "probe" for comment in tree.iter(ElementTree.Comment))


def is_in_open_link(page: bytes) -> bool:
    """Whether text at some spot would belong to a link."""
    tree = parse(with_probes(page, b" PROBE")[0])
    return any("PROBE" in text for link in tree.iter("a") for text in link.itertext())


def with_bait(page: bytes, visitor: bytes) -> bytes:
    """The page with hidden links as they are written for *visitor*."""
    seen_by = visitor or b"visitr"
    return bait_rewriter(SEAL, seen_by, b"abcdef", "links", 1, has_text=bool(visitor)).feed(page, final=True)


def is_bait(element: ElementTree.Element, names: Sequence[str]) -> bool:
    if element.tag == "style":
        return bool(_BAIT_CLASSES.fullmatch(element.text or ""))
    if element.tag == "noscript":
        # To a browser that runs scripts, what is in it is text.
        return any(name in (element.text or "") or name in [child.get("class") for child in element] for name in names)
    if element.get("class") not in names:
        return False
    if element.tag == "a":
        return len(element) == 0 and not element.text
    return [child.tag for child in element] == ["a"]


def nodes(tree: ElementTree.Element, name: Sequence[str]) -> list[ElementTree.Element | str]:
    """What is in an element, in order: text, and elements that are neither bait nor formatting."""
    found: list[ElementTree.Element | str] = [tree.text or ""]
    for child in tree:
        if child.tag in FORMATTING:
            found += nodes(child, name)
        elif not is_bait(child, name):
            found.append(child)
        found.append(child.tail or "")
    return found


def drawn(tree: ElementTree.Element, name: Sequence[str], depth: int = 0) -> list[str]:
    """The tree, one line for each element and each run of text."""
    tag = tree.tag if isinstance(tree.tag, str) else "comment"
    lines = [f"{'  ' * depth}<{tag} {sorted(tree.attrib.items())}>"]
    for is_text, run in groupby(nodes(tree, name), lambda node: isinstance(node, str)):
        if not is_text:
            for child in run:
                lines += drawn(child, name, depth + 1)
        elif text := "".join(run):
            lines.append(f"{'  ' * depth}  {text!r}")
    return lines


def check(page: bytes, *, scripting: bool = True, visitors: Sequence[bytes] = FORMS) -> None:
    if b"<frameset" in page:
        return
    probed, number = with_probes(page)
    assert probes(parse(probed, scripting=scripting)) == number, (page, probed)
    for visitor in visitors:
        baited = with_bait(page, visitor)
        assert (baited != page) == bool(number)
        if baited == page:
            return
        names = list(filter(None, _BAIT_CLASSES.search(baited.decode("latin-1")).groups()))
        before, after = (drawn(parse(text, scripting=scripting), names) for text in (page, baited))
        assert before == after or is_in_open_link(page), (page, baited)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_thousands_of_nasty_pages(seed):
    dice = random.Random(seed)
    for number in range(700):
        check(BODY + random_page(dice), visitors=[FORMS[number % len(FORMS)]])


def test_pages_without_a_frame():
    """No body yet: where bait would begin it, the page is another; but every probe is a comment."""
    dice = random.Random(99)
    for _ in range(700):
        page = random_page(dice)
        probed, number = with_probes(page)
        # A frameset throws away the body before it, with all that was in it.
        assert b"<frameset" in page or probes(parse(probed)) == number, page


def test_pages_without_scripts():
    """To a browser that runs no scripts, `<noscript>` is an element like any other."""
    dice = random.Random(7)
    for number in range(400):
        page = BODY + random_page(dice)
        if b"noscript" not in page:
            check(page, scripting=False, visitors=[FORMS[number % len(FORMS)]])


@pytest.mark.parametrize(
    "page",
    [
        b"<svg><style><!--</style></svg><a></a>--></style></svg>",
        b"<svg><![CDATA[ > </svg><a></a> ]]></svg>",
        b"<svg><foreignObject><textarea></svg><a></a></textarea></foreignObject></svg><a></a>",
        b"<svg></template><a></a></svg>",
        b"<math><mtext><style></math><a></a></style></mtext></math><a></a>",
        b"<select><title></select><a></a></title>",
        b"<p title='<script>'></p><a></a><script></a></script>",
        b"<p title='a>b' <script><a></a></script>",
        b"<p ='><img alt=\"'></a>\">",
        b"<p x==\"><img alt='\"></a>'>",
        b"</script x='><a></a>'><a></a>",
        b"<script></script x='><a></a>'><a></a>",
        b"<!-- --!><img alt='--></a>'>",
        b"<noscript><p title='</noscript><a></a>'></noscript>",
    ],
)
def test_pages_that_once_went_wrong_or_could_have(page):
    check(BODY + page)
