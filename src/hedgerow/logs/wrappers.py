r"""
Wrappers: what syslog, the journal, Docker and Kubernetes put around each line of a server, and how it is removed.

    syslog      <190>Nov 18 08:00:00 web nginx[7]: 192.0.2.1 - - [18/Nov/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 1
    journald    {"MESSAGE": "192.0.2.1 - - ...", "_SYSTEMD_UNIT": "nginx.service"}
    docker      {"log": "192.0.2.1 - - ...\n", "stream": "stdout", "time": "2026-11-18T08:00:00Z"}
    kubernetes  2026-11-18T08:00:00.1Z stdout F 192.0.2.1 - - ...

What is inside may have any format. A line without the wrapper stays as it is.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from hedgerow.errors import DECODE_ERRORS

_TIME = rb"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d))"
_OLD_SYSLOG = re.compile(rb"(?:<\d{1,3}>)?" + _TIME + rb" (?:\S+ )?[^\s:\[\]]+(?:\[\d+\])?: ?(.*)\Z", re.DOTALL)
_NEW_SYSLOG = re.compile(
    rb"<\d{1,3}>1 \S+ \S+ \S+ \S+ \S+ (?:-|(?:\[(?:[^\]\\]|\\.)*+\])++) ?(?:\xef\xbb\xbf)?(.*)\Z", re.DOTALL
)
_KUBERNETES = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([FP]) (.*)\Z", re.DOTALL)
_MAX_PARTIAL = 1 << 17
_LEAST_ZEROS = 0.3


class _Docker(msgspec.Struct):
    log: str
    stream: str


class _Journal(msgspec.Struct):
    message: str | list[int] = msgspec.field(name="MESSAGE")


_DOCKER, _JOURNAL = msgspec.json.Decoder(_Docker), msgspec.json.Decoder(_Journal)

Unwrap = Callable[[bytes], bytes | None]
"""Returns what is inside a line, or None if it does not have the wrapper."""


def _from_syslog(line: bytes) -> bytes | None:
    match = _NEW_SYSLOG.match(line) or _OLD_SYSLOG.match(line)
    return match[1] if match else None


def _from_journal(line: bytes) -> bytes | None:
    try:
        if b'"MESSAGE"' not in line:
            return None
        message = _JOURNAL.decode(line).message
        # What is no UTF-8 is a list of bytes there.
        return message.encode("utf-8", "replace") if isinstance(message, str) else bytes(message)
    except (*DECODE_ERRORS, ValueError):
        return None


def _from_docker(line: bytes) -> bytes | None:
    try:
        return _DOCKER.decode(line).log.encode("utf-8", "replace") if b'"log"' in line else None
    except DECODE_ERRORS:
        return None


def _from_kubernetes(line: bytes) -> bytes | None:
    match = _KUBERNETES.match(line)
    # The part of a line that is continued in the next one has no line end, as in Docker's files.
    return match[3] + (b"\n" if match[2] == b"F" else b"") if match else None


WRAPPERS: dict[str, Unwrap] = {
    "docker": _from_docker,
    "journald": _from_journal,
    "kubernetes": _from_kubernetes,
    "syslog": _from_syslog,
}
_IN_PARTS = frozenset({"docker", "kubernetes"})


def detect_wrapper(lines: Iterable[bytes]) -> str:
    """Return the name of the wrapper that at least half of *lines* have, "" if there is none."""
    tried = [line for line in lines if line.strip()]
    for name, unwrap in WRAPPERS.items():
        if tried and 2 * sum(unwrap(line) is not None for line in tried) >= len(tried):
            return name
    return ""


def unwrapped(name: str, batches: Iterable[Sequence[bytes]]) -> Iterator[bytes]:
    """Yield the text inside the lines of *batches*, in blocks. Long lines may be in several parts."""
    unwrap = WRAPPERS[name]
    begun = b""
    for lines in batches:
        found = []
        for line in lines:
            inside = unwrap(line.rstrip(b"\r"))
            if inside is None:
                inside = line
            elif name in _IN_PARTS:
                if not inside.endswith(b"\n") and len(begun) < _MAX_PARTIAL:
                    begun += inside
                    continue
                inside, begun = begun + inside, b""
            found.append(inside.rstrip(b"\n").replace(b"\n", b" ") + b"\n")
        yield b"".join(found)
    if begun:
        yield begun + b"\n"


def detect_utf16(start: bytes) -> str:
    """Return the encoding of a text that is in UTF-16, by its mark or its zeros; else ""."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    least = _LEAST_ZEROS * len(start)
    if start and start[1::2].count(0) > least and not start[::2].count(0):
        return "utf-16-le"
    return "utf-16-be" if start and start[::2].count(0) > least and not start[1::2].count(0) else ""


def decoded(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield text in *encoding* as UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")
