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


@target("growth")
def growth(data: bytes) -> None:
    """Four times the text costs at most twelve times as much, with a start, a repeated part and an end from *data*."""
    kind, sizes, rest = data[0] % 4 if data else 0, data[1:3].ljust(2, b"\0"), data[3:]
    first, part, last = rest[: sizes[0] % 32], rest[sizes[0] % 32 :][:64], rest[-(sizes[1] % 16) :]
    texts = [first + (part or b" ") * (size // max(1, len(part))) + last for size in (SMALL, LARGE)]
    if seconds_of(kind, texts[1]) < LEAST_SECONDS:
        return
    for _ in range(4):
        small, large = (min(seconds_of(kind, text) for _ in range(2)) for text in texts)
        if large < LEAST_SECONDS or large / len(texts[1]) <= FACTOR * small / len(texts[0]):
            return
    raise AssertionError(f"{small * 1000:.1f} ms for {len(texts[0])} bytes, {large * 1000:.1f} for {len(texts[1])}")
