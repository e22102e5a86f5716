"""
Splitting: one line of an access log, taken apart where it is plain beyond doubt. Compiled by numba.

A plain line has a client, two words, a time in whole seconds, a request, a status, a size, and then nothing or a
referrer and a user agent, all without a backslash.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.report.tables.jit import behind_digits, eight, find, find_low, lean
from hedgerow.report.tables.timestamps import NO_TIME, seconds
from hedgerow.report.tables.url_features import Bytes


@lean
def _word_end(data: Bytes, i: int, end: int) -> int:
    """The end of the word at *i*, where a space stands behind it; -1 where there is none such."""
    stop = find_low(data, i, end)
    return stop if stop < end and stop > i and data[stop] == 32 else -1


@lean
def _quoted_end(data: Bytes, i: int, end: int) -> int:
    """The place of the quote that ends a quoted field whose first byte is at *i*; -1 where it is not plain."""
    stop = find(data, i, end, 34, 92)
    return stop if stop < end and data[stop] == 34 else -1


@lean
def _is_token(c: int) -> bool:
    """Whether a method may hold this byte."""
    if 48 <= c <= 57 or 65 <= c <= 90 or 94 <= c <= 122:
        return True
    return c in (33, 35, 36, 37, 38, 39, 42, 43, 45, 46, 124, 126)


@lean
def _is_space(c: int) -> bool:
    return 9 <= c <= 13 or 28 <= c <= 32 or c == 0x85 or c == 0xA0


_FOUR = np.uint64(0xFFFFFFFF)
_FIVE = np.uint64(0xFFFFFFFFFF)
_NOBODY = np.uint64(int.from_bytes(b" - - ", "little"))
_GET = np.uint64(int.from_bytes(b"GET ", "little"))
_LAST = np.uint64(1 << 56)
_HTTP = np.uint64(int.from_bytes(b"HTTP/1.1", "little"))
"""0 and 1 differ in the last bit only."""


@lean
def _request(data: Bytes, start: int, end: int, out: Any) -> int:
    """The target and method of the request at *start*, into *out*; where its quote is, or -1 where it is not plain."""
    stop = _quoted_end(data, start, end)
    if stop < 0:
        return -1
    i = start
    if stop - start > 16 and eight(data, start) & _FOUR == _GET:
        i += 3
    while i < stop and _is_token(data[i]):
        i += 1
    out[5] = 0
    out[11] = 0
    if i in (start, stop) or data[i] != 32:
        # No method: all of it is target, and "-" is nothing.
        nothing = stop - start == 1 and data[start] == 45
        out[3] = start
        out[4] = start if nothing else stop
        return stop
    if i - start == 3 and data[start] == 71 and data[start + 1] == 69 and data[start + 2] == 84:
        out[5] = 1
    elif i - start == 4 and data[start] == 72 and data[start + 1] == 69 and data[start + 2] == 65:
        out[5] = 2 if data[start + 3] == 68 else 0
    out[3] = i + 1
    out[4] = stop
    # The target ends at the last " HTTP/" behind which there is no space.
    k = stop - 1
    if stop - i > 16 and eight(data, stop - 8) | _LAST == _HTTP:
        k = stop - 9
    while k > i and not _is_space(data[k]):
        k -= 1
    version = k > i and k + 6 <= stop and data[k] == 32 and data[k + 1] == 72 and data[k + 2] == 84
    if version and data[k + 3] == 84 and data[k + 4] == 80 and data[k + 5] == 47:
        out[4] = k
        if stop - k == 9:
            out[11] = data[k + 6] == 49 and data[k + 7] == 46 and data[k + 8] == 48
    return stop


@lean
def split(data: Bytes, start: int, end: int, vhost: bool, out: Any) -> bool:
    """
    Take one line apart; *out* gets its places and numbers. False where it is not plain.

    out: 0/1 client, 2 seconds, 3/4 target, 5 method (0 other, 1 GET, 2 HEAD), 6 status, 7/8 referrer, 9/10 user agent,
    11 whether it is HTTP/1.0, 12/13 virtual host, 14 to 17 the text of the time that 2 is.
    """
    i = start
    out[12] = out[13] = start
    if vhost:
        stop = _word_end(data, i, end)
        if stop < 0:
            return False
        out[13] = stop
        i = stop + 1
    stop = _word_end(data, i, end)
    if stop < 0:
        return False
    if vhost and stop - i == 1 and data[i] == 45:
        return False
    out[0] = i
    out[1] = stop
    i = stop + 5
    if i + 31 > end or eight(data, stop) & _FIVE != _NOBODY:
        i = stop + 1
        stop = _word_end(data, i, end)
        if stop < 0 or (vhost and (stop - i != 1 or data[i] != 45)):
            return False
        i = stop + 1
        stop = _word_end(data, i, end)
        if stop < 0:
            return False
        i = stop + 1
    # The time, in brackets, and the quote of the request.
    if i + 31 > end or data[i] != 91 or data[i + 27] != 93 or data[i + 28] != 32 or data[i + 29] != 34:
        return False
    # Most lines are of the same second as the one before: 26 bytes, looked at in four steps.
    first, second = np.int64(eight(data, i + 1)), np.int64(eight(data, i + 9))
    third, last = np.int64(eight(data, i + 17)), np.int64(eight(data, i + 19))
    if first != out[14] or second != out[15] or third != out[16] or last != out[17]:
        at = seconds(data, i + 1)
        if at == NO_TIME:
            return False
        out[2], out[14], out[15], out[16], out[17] = at, first, second, third, last
    i = _request(data, i + 30, end, out)
    if i < 0 or i + 6 > end or data[i] != 34 or data[i + 1] != 32:
        return False
    i += 2
    # Status and size.
    if data[i] == 45:
        out[6] = 0
        i += 1
    else:
        status: Any = 0
        for _ in range(3):
            if i >= end or not 48 <= data[i] <= 57:
                return False
            status = status * 10 + np.int64(data[i]) - 48
            i += 1
        out[6] = status
    if i + 1 >= end or data[i] != 32:
        return False
    i += 1
    if data[i] == 45:
        i += 1
    else:
        size = i
        i = behind_digits(data, i, end)
        if i == size:
            return False
    out[7] = out[8] = out[9] = out[10] = i
    if i == end:
        return True
    # The referrer and the user agent.
    if i + 2 > end or data[i] != 32 or data[i + 1] != 34:
        return False
    i += 2
    stop = _quoted_end(data, i, end)
    if stop < 0 or stop + 3 > end or data[stop + 1] != 32 or data[stop + 2] != 34:
        return False
    out[7] = i
    out[8] = stop
    i = stop + 3
    stop = _quoted_end(data, i, end)
    if stop < 0 or (stop + 1 < end and data[stop + 1] != 32):
        return False
    out[9] = i
    out[10] = stop
    return True
