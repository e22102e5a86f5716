"""
What it costs to mark the links of a page and to put bait into it, next to lxml.

The page has 40 KB and 116 links. lxml parses it, changes every link and writes it out again, without any sealing.
"""

from __future__ import annotations

import gzip

import lxml.html

from bench.samples import page
from bench.timing import measure
from hedgerow.cli.processes import reduce_garbage_collection
from hedgerow.markers.html.content_coding import codec
from hedgerow.markers.html.scanner import Scanner
from hedgerow.markers.resolve import PageLocation
from hedgerow.markers.rewrite import PageRewriter, SkeletonCache
from hedgerow.markers.rules import Mode, Rules
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.traps.bait import Bait

SEAL = TokenCodecs([Key(1, bytes(range(64)), 0.0)]).of("example.org")
PLACE = PageLocation(b"http", b"example.org", b"/docs/hedges.html")
VISITOR, PARENT = b"abcdef", b"ghijkl"
GOALS = {
    "marked and baited, page not seen before": 1.0,
    "marked and baited, page seen before": 0.35,
    "clean marks and bait, page not seen before": 0.8,
}


def by_lxml(body: bytes) -> bytes:
    tree = lxml.html.fromstring(body)
    for element in tree.iter("a"):
        href = element.get("href")
        if href:
            element.set("href", "/~" + href)
    return lxml.html.tostring(tree)


RULES: dict[Mode, Rules] = {mode: Rules(mode) for mode in ("clean", "opaque", "readable", "off")}


def rewriter(skeletons: SkeletonCache, mode: Mode = "opaque") -> PageRewriter:
    bait = Bait(VISITOR, PARENT, has_text=True)
    shown_at = b"/~here" if mode == "opaque" else b""
    one = PageRewriter(PLACE, RULES[mode], b"/~", skeletons, SEAL, VISITOR, PARENT, at=1.8e9, shown_at=shown_at)
    if mode == "clean":
        one.add_script()
    one.add_bait(bait.style, bait.link_start, "spread", 3, wrappers=bait.wrappers, text_style=bait.text_style)
    return one


def gzipped(one: PageRewriter, packed: bytes) -> bytes:
    coding = codec(b"gzip")
    assert coding is not None
    decoder, encoder = coding
    text = b"".join(decoder.feed(packed))
    decoder.end()
    return encoder.feed(one.feed(text, final=True)) + encoder.flush(final=True)


def main() -> None:
    # As `hedgerow protect` runs.
    reduce_garbage_collection()
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
            "clean marks and bait, page not seen before": lambda: rewriter(SkeletonCache(), "clean").feed(
                body, final=True
            ),
            "clean marks and bait, page seen before": lambda: rewriter(warm, "clean").feed(body, final=True),
            "marked in readable mode, page seen before": lambda: rewriter(warm, "readable").feed(body, final=True),
            "bait alone, page seen before": lambda: rewriter(warm, "off").feed(body, final=True),
            "marked in a gzipped page, seen before": lambda: gzipped(rewriter(warm), packed),
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
    print(f"page of {len(body):,} bytes, gzipped {len(packed):,}")
    for mode in RULES:
        marked = rewriter(warm, mode).feed(body, final=True)
        size = len(gzip.compress(marked, 6))
        print(f"  {mode}: {len(marked):,} bytes, gzipped {size:,}, {size / len(packed):.2f} times")
