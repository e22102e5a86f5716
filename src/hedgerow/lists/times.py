"""Parsing and formatting of times and durations as people and other programs write them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

_UNITS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0,
}  # fmt: skip
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d|w)", re.ASCII)
_DURATION = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_LATEST = 253_402_300_799.0


def parse_duration(text: str) -> float:
    """
    Return the seconds of a duration such as `90`, `30m`, `7d` or `3h59m45.1s`, or raise ValueError.

    >>> parse_duration("1h30m"), parse_duration("90"), parse_duration("-2s")
    (5400.0, 90.0, -2.0)
    """
    given, text = text, text.strip().lower()
    sign = -1.0 if text.startswith("-") else 1.0
    text = text.removeprefix("-")
    if re.fullmatch(r"\d+(?:\.\d+)?", text, re.ASCII):
        seconds = float(text)
    elif _DURATION.fullmatch(text):
        seconds = math.fsum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    else:
        raise ValueError(f"{given!r} is not a duration; write it like 90s, 30m, 12h or 7d")
    if seconds > _LATEST:
        raise ValueError(f"{given!r} is too long")
    return sign * seconds


def parse_time(value: object) -> float:
    """
    Return the seconds since 1970 of a number or an ISO 8601 time (UTC by default). None and "" give 0.

    >>> parse_time("2027-01-15T08:00:00Z"), parse_time(1800000000), parse_time(None)
    (1800000000.0, 1800000000.0, 0.0)
    """
    if value is None or value == "":
        return 0.0
    seconds = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        try:
            seconds = float(value)
        except ValueError:
            seconds = _from_iso(value)
    if seconds is None or not 0 <= seconds <= _LATEST:
        raise ValueError(f"{value!r} is not a time; write it like 2027-01-15T08:00:00Z")
    return seconds


def _from_iso(text: str) -> float | None:
    try:
        time = datetime.fromisoformat(text.strip())
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def iso(at: float) -> str:
    """
    Format a time as ISO 8601 in UTC, "" for 0. Parsing it gives the same number.

    >>> iso(1800000000.0), iso(0.0)
    ('2027-01-15T08:00:00Z', '')
    """
    if not at:
        return ""
    time = datetime.fromtimestamp(round(at, 6), UTC)
    return time.isoformat(timespec="microseconds" if time.microsecond else "seconds").replace("+00:00", "Z")
