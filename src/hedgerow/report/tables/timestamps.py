"""Moments: the times that servers of nginx's and Apache's kind write, as seconds. Compiled by numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.report.tables.jit import lean
from hedgerow.report.tables.url_features import Bytes


@lean
def _two(data: Bytes, i: int) -> Any:
    a = np.int64(data[i]) - 48
    b = np.int64(data[i + 1]) - 48
    if a < 0 or a > 9 or b < 0 or b > 9:
        return -1
    return a * 10 + b


@lean
def _month(a: Any, b: Any, c: Any) -> Any:
    """The number of a month by its three letters, or 0."""
    code = a << 16 | b << 8 | c
    if code == 0x4A616E:
        return 1
    if code == 0x466562:
        return 2
    if code == 0x4D6172:
        return 3
    if code == 0x417072:
        return 4
    if code == 0x4D6179:
        return 5
    if code == 0x4A756E:
        return 6
    if code == 0x4A756C:
        return 7
    if code == 0x417567:
        return 8
    if code == 0x536570:
        return 9
    if code == 0x4F6374:
        return 10
    if code == 0x4E6F76:
        return 11
    if code == 0x446563:
        return 12
    return 0


NO_TIME = np.int64(-(1 << 62))


@lean
def seconds(data: Bytes, i: int) -> Any:
    """The seconds since 1970 of the time of 26 bytes at *i* (`10/Oct/2000:13:55:36 -0700`), or NO_TIME."""
    day, year1, year2 = _two(data, i), _two(data, i + 7), _two(data, i + 9)
    hour, minute, second = _two(data, i + 12), _two(data, i + 15), _two(data, i + 18)
    zone_hour, zone_minute = _two(data, i + 22), _two(data, i + 24)
    month = _month(np.int64(data[i + 3]), np.int64(data[i + 4]), np.int64(data[i + 5]))
    if day < 1 or year1 < 0 or year2 < 0 or hour < 0 or minute < 0 or second < 0 or zone_hour < 0 or zone_minute < 0:
        return NO_TIME
    if month == 0 or hour > 23 or minute > 59 or second > 60 or zone_hour > 23 or zone_minute > 59:
        return NO_TIME
    marks = data[i + 2] == 47 and data[i + 6] == 47 and data[i + 11] == 58 and data[i + 14] == 58
    if not (marks and data[i + 17] == 58 and data[i + 20] == 32):
        return NO_TIME
    sign = data[i + 21]
    if sign != 43 and sign != 45:
        return NO_TIME
    year = year1 * 100 + year2
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 30 if month in (4, 6, 9, 11) else 31 if month != 2 else 29 if leap else 28
    if year < 1 or day > longest:
        return NO_TIME
    # Days since 1970 by the calendar that begins in March.
    y = year - 1 if month <= 2 else year
    m = month + 9 if month <= 2 else month - 3
    era = y // 400
    of_era = y - era * 400
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + (153 * m + 2) // 5 + day - 1 - 719468
    ahead = (zone_hour * 60 + zone_minute) * 60
    at = days * 86400 + (hour * 60 + minute) * 60 + second
    return at - ahead if sign == 43 else at + ahead
