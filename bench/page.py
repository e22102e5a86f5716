"""What it costs to put bait into a page of 40 KB and 116 links, next to lxml parsing it and writing it out again."""

from __future__ import annotations

import gzip
import os

import lxml.html

from bench.samples import page
from bench.timing import measure
from hedgerow.adapters.outgoing import Outgoing
from hedgerow.marker.seal import Seal
from hedgerow.page.scan import Scanner, Skeletons
from hedgerow.traps.bait import Bait, BaitPlacer, Placement


def main() -> None:
    seal = Seal(os.urandom(64))
    body = page()
    large = page(links=1500, size=400_000)
    packed = gzip.compress(body, 6)
    warm = Skeletons()

    def bait(data: bytes, skeletons: Skeletons, placement: Placement = "spread", every: int = 3) -> bytes:
        placer = BaitPlacer(Bait(seal, "/~", "192.0.2.1", b"abcdef"), skeletons, placement=placement, every=every)
        return placer.feed(data, final=True)

    def coded() -> bytes:
        placer = BaitPlacer(Bait(seal, "/~", "192.0.2.1", b"abcdef"), warm)
        return Outgoing(b"text/html", b"gzip", placer).feed(packed, final=True)

    found = measure(
        {
            "lxml parses and serialises it": lambda: lxml.html.tostring(lxml.html.fromstring(body)),
            "scan alone": lambda: Scanner().feed(body, final=True),
            "bait, page not seen before": lambda: bait(body, Skeletons()),
            "bait, page seen before": lambda: bait(body, warm),
            "bait behind every link, page seen before": lambda: bait(body, warm, "links", 1),
            "bait in a gzipped page, seen before": coded,
            "bait, 400 KB and 1,500 links, not seen before": lambda: bait(large, Skeletons()),
        }
    )
    reference = found["lxml parses and serialises it"]
    for name, seconds in found.items():
        print(f"{name:48} {seconds * 1e6:8.0f} µs   {seconds / reference:5.2f} of lxml")
    print(f"page of {len(body):,} bytes, with bait {len(bait(body, warm)):,}")
