"""The cost per byte: text of strangers must be read in linear time, however it is made."""

from __future__ import annotations

import time

from hedgerow.logs.dialect import FORMAT_NAMES, parser
from hedgerow.logs.formats import Format
from hedgerow.markers.html.charset import carried_charset
from hedgerow.markers.html.csp import allow_base, allow_files, allow_script, allow_style, script_nonce
from hedgerow.markers.rules import NeverOpaque, Rules

from .marks import _rewritten
from .registry import target

SMALL, LARGE = 12_000, 48_000
GLANCED = 1_000, 4_000
"""Sizes of the texts of which most inputs are judged: a thirtieth of the work."""
SUSPICIOUS = 5.2
"""
How many times as much the longer of these may cost before the large texts are measured. Where a byte of the large one
costs three times as much as one of the small one because of a square, it is 5.7 here; where it does not grow, it is 4.
"""
ALWAYS = 32
"""One in so many inputs is measured as large texts in any case: a limit may be passed only there."""
FACTOR = 3.0
"""How many times as much a byte of the large text may cost. Linear is 1, quadratic 4."""
LEAST_SECONDS = 0.02
LINES = [parser(Format(name)) for name in FORMAT_NAMES]
CLOSED = NeverOpaque(["/admin/*", "/*x*y*z*"])
RULES = Rules("clean", (("/*a*b*c*d*e*f*g*h", "off"),))


def seconds_of(kind: int, text: bytes) -> float:
    start = time.thread_time()
    if kind == 0:
        _rewritten("clean", [text])
    elif kind == 1:
        carried_charset(text, text)
        script_nonce(text)
        allow_base(allow_files(allow_style(allow_script(text, b"'sha256-x'"), b"'sha256-y'"), b"/x/"))
    elif kind == 2:
        RULES.mode_of(text.decode("latin-1"))
        CLOSED.match(text.decode("latin-1"))
    else:
        for parse in LINES:
            parse(text)
    return time.thread_time() - start


def is_suspicious(kind: int, texts: list[bytes]) -> bool:
    """Tell whether the cost of short *texts* may grow faster than they do, without what a call costs in any case."""
    for _ in range(3):
        none, small, large = (seconds_of(kind, text) for text in (b"", *texts))
        if large - none <= SUSPICIOUS * (small - none):
            return False
    return True


@target("growth")
def growth(data: bytes) -> None:
    """Four times the text costs at most twelve times as much, with a start, a repeated part and an end from *data*."""
    kind, sizes, rest = data[0] % 4 if data else 0, data[1:3].ljust(2, b"\0"), data[3:]
    first, part, last = rest[: sizes[0] % 32], rest[sizes[0] % 32 :][:64], rest[-(sizes[1] % 16) :]

    def text(size: int) -> bytes:
        return first + (part or b" ") * (size // max(1, len(part))) + last

    if sum(data) % ALWAYS and not is_suspicious(kind, [text(size) for size in GLANCED]):
        return
    texts = [text(size) for size in (SMALL, LARGE)]
    if seconds_of(kind, texts[1]) < LEAST_SECONDS:
        return
    for _ in range(4):
        small, large = (min(seconds_of(kind, text) for _ in range(2)) for text in texts)
        if large < LEAST_SECONDS or large / len(texts[1]) <= FACTOR * small / len(texts[0]):
            return
    raise AssertionError(f"{small * 1000:.1f} ms for {len(texts[0])} bytes, {large * 1000:.1f} for {len(texts[1])}")
