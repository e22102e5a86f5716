"""
What it costs to mark the links of a page and to put bait into it, next to lxml.

The page has 40 KB and 116 links. lxml parses it, changes every link and writes it out again, without any sealing.
"""

from __future__ import annotations

import gzip

import lxml.html

from bench.samples import page
from bench.timing import measure
from hedgerow.cli.processes import collect_less
from hedgerow.markers.html.scanner import Scanner
from hedgerow.markers.prepare import Fill, Preparer, based
from hedgerow.markers.resolve import PageLocation
from hedgerow.markers.rewrite import PageWriter, Rewriter, SkeletonCache
from hedgerow.markers.rules import Mode, Rules, Spacing
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.traps.bait import Bait
from hedgerow.web.html_response import Outgoing

SEAL = TokenCodecs([Key(1, bytes(range(64)), 0.0)]).of("example.org")
PLACE = PageLocation(b"http", b"example.org", b"/docs/hedges.html")
VISITOR, PARENT = b"abcdef", b"ghijkl"
GOALS = {"marked and baited, page not seen before": 1.0, "marked and baited, page seen before": 0.35}


def by_lxml(body: bytes) -> bytes:
    tree = lxml.html.fromstring(body)
    for element in tree.iter("a"):
        href = element.get("href")
        if href:
            element.set("href", "/~" + href)
    return lxml.html.tostring(tree)


RULES: dict[Mode, Rules] = {mode: Rules(mode, (), lambda _: True) for mode in ("opaque", "readable", "off")}


def rewriter(skeletons: SkeletonCache, mode: Mode = "opaque") -> Rewriter:
    rules = RULES[mode]
    bait = Bait(VISITOR, PARENT)
    fills: dict[Fill, bytes] = {
        "here": b"/~here", "base": based(PLACE.target), "style": bait.style, "lure": bait.lure,
    }  # fmt: skip
    writer = PageWriter(SEAL, VISITOR, PARENT, fills)

    def preparer() -> Preparer:
        return Preparer(PLACE, rules, b"/~", marked=True, spacing=Spacing())

    return Rewriter(preparer, writer, skeletons, (PLACE, mode))


def main() -> None:
    # As `hedgerow protect` runs.
    collect_less()
    body = page()
    large = page(links=1500, size=400_000)
    packed = gzip.compress(body, 6)
    warm = SkeletonCache()
    found = measure(
        {
            "lxml parses, changes and serialises it": lambda: by_lxml(body),
            "scan alone": lambda: Scanner().feed(body, final=True),
            "marked and baited, page not seen before": lambda: rewriter(SkeletonCache()).feed(body, final=True),
            "marked and baited, page seen before": lambda: rewriter(warm).feed(body, final=True),
            "marked in readable mode, page seen before": lambda: rewriter(warm, "readable").feed(body, final=True),
            "bait alone, page seen before": lambda: rewriter(warm, "off").feed(body, final=True),
            "marked in a gzipped page, seen before": lambda: Outgoing(b"text/html", b"gzip", rewriter(warm)).feed(
                packed, final=True
            ),
            "lxml, 400 KB and 1,500 links": lambda: by_lxml(large),
            "marked, 400 KB and 1,500 links, not seen before": lambda: rewriter(SkeletonCache()).feed(
                large, final=True
            ),
        }
    )
    reference = found["lxml parses, changes and serialises it"]
    for name, seconds in found.items():
        goal = f"   goal {GOALS[name]:g}" if name in GOALS else ""
        print(f"{name:50} {seconds * 1e6:8.0f} µs   {seconds / reference:5.2f} of lxml{goal}")
    marked = rewriter(warm).feed(body, final=True)
    print(f"page of {len(body):,} bytes, marked {len(marked):,}")
    print(f"gzipped {len(packed):,} and {len(gzip.compress(marked)):,}")
