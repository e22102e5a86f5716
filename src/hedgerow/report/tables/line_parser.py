"""
Line parser: one line of an access log, taken apart where it is plain beyond doubt. Compiled by numba.

A plain line has a client, two words, a time in whole seconds, a request, a status, a size, and then nothing or a
referrer and a user agent, all without a backslash. `logs.formats` parses all other lines, and is the reference for
both: whatever is taken here is parsed there to the same visit.

Behind the text there is a line end and room for `PADDING` bytes, so nothing here has to look for the end of the text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.report.tables.jit import Kernel
from hedgerow.report.tables.url_features import eight

OTHER_CLIENT = np.uint64(1 << 63)
"""A source that is no plain IPv4 address has a number from here on."""

NO_TIME = -(1 << 62)
PADDING = 64

# What `split` finds in a line: where its parts begin and end, the method (`GET`, `HEAD` or neither), the status, and
# whether it is HTTP/1.0.
(
    HOST_END, CLIENT, CLIENT_END, USER, USER_END, TIME, TARGET, TARGET_END, METHOD, OLD_VERSION, STATUS, REFERRER,
    REFERRER_END, AGENT, AGENT_END,
) = range(15)  # fmt: skip
FIELDS = 15
OTHER_METHOD, GET, HEAD = 0, 1, 2

_NEWLINE, _RETURN, _SPACE, _QUOTE, _DASH, _BACKSLASH = 10, 13, 32, 34, 45, 92
_TOKEN = np.isin(np.arange(256), list(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
"""The bytes that a method may have."""
_BLANK = np.array([chr(byte).isspace() for byte in range(256)])
_MONTHS = np.array([int.from_bytes(name) for name in b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()])
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _BACKSLASHES, _NEWLINES = (_ONES * np.uint64(byte) for byte in (_QUOTE, _BACKSLASH, _NEWLINE))
_EIGHT, _FIVE_BYTES = np.uint64(8), np.uint64(0xFFFFFFFFFF)
_NOBODY = np.uint64(int.from_bytes(b" - - ", "little"))
_HTTP_1 = np.uint64(int.from_bytes(b"HTTP/1.1", "little"))
_LAST_BIT = np.uint64(1 << 56)
"""In which HTTP/1.0 and HTTP/1.1 differ."""


@Kernel
def _has(word: Any, bytes_: Any) -> Any:
    """Whether one of the eight bytes of *word* is the one that *bytes_* has eight times."""
    other = word ^ bytes_
    return (other - _ONES) & ~other & _TOPS


@Kernel
def find_quote(data: Any, start: int) -> Any:
    """Where the first quote, backslash or line end is from *start* on."""
    i = np.uint64(start)
    while True:
        word = eight(data, i)
        if _has(word, _QUOTES) | _has(word, _BACKSLASHES) | _has(word, _NEWLINES):
            break
        i += _EIGHT
    byte = data[i]
    while byte != _QUOTE and byte != _NEWLINE and byte != _BACKSLASH:
        i += np.uint64(1)
        byte = data[i]
    return np.int64(i)


@Kernel
def find_line_end(data: Any, start: int) -> Any:
    i = np.uint64(start)
    while not _has(eight(data, i), _NEWLINES):
        i += _EIGHT
    while data[i] != _NEWLINE:
        i += np.uint64(1)
    return np.int64(i)


@Kernel
def _word_end(data: Any, start: int) -> Any:
    """The end of the word at *start*, where a space follows it; -1 where there is no word or no space."""
    i = np.uint64(start)
    while data[i] > _SPACE:
        i += np.uint64(1)
    end = np.int64(i)
    return end if end > start and data[end] == _SPACE else -1


@Kernel
def ipv4(data: Any, start: int, end: int) -> Any:
    """The number of a plain IPv4 address; OTHER_CLIENT where it is none."""
    if end - start < 7 or end - start > 15:
        return OTHER_CLIENT
    number: Any = 0
    part: Any = 0
    digits = dots = 0
    for i in range(start, end):
        digit = np.int64(data[i]) - 48
        if 0 <= digit <= 9:
            if digits and part == 0:
                return OTHER_CLIENT
            part = part * 10 + digit
            digits += 1
            if part > 255:
                return OTHER_CLIENT
        elif digit == -2 and digits and dots < 3:
            number = number << 8 | part
            part = digits = 0
            dots += 1
        else:
            return OTHER_CLIENT
    if dots != 3 or not digits:
        return OTHER_CLIENT
    return np.uint64(number << 8 | part)


@Kernel
def is_name(data: Any, start: int, end: int) -> bool:
    """
    Return whether a client that is no IPv4 address is plainly a host name or an IPv6 address.

    `formats.is_client` decides on the others, and agrees with this.
    """
    letter = other = False
    colons = 0
    for i in range(start, end):
        byte = data[i]
        if byte == 58:
            colons += 1
        elif 97 <= byte <= 122 or 65 <= byte <= 90:
            letter = True
            other |= 70 < byte < 97 or byte > 102
        elif byte == 95 or byte >= 128 or byte == 45:
            letter |= byte != 45
            other = True
        elif byte != 46 and (byte < 48 or byte > 57):
            return False
    if colons:
        return colons > 1 and not other
    if end - start == 3:
        name = np.int64(data[start]) << 16 | np.int64(data[start + 1]) << 8 | np.int64(data[start + 2])
        for k in range(12):
            if _MONTHS[k] == name:
                return False
    return letter


@Kernel
def _two(data: Any, i: int) -> Any:
    """The number that two digits are; -1 where they are none."""
    tens, ones = np.int64(data[i]) - 48, np.int64(data[i + 1]) - 48
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else -1


@Kernel
def seconds(data: Any, i: int) -> Any:
    """The seconds since 1970 of a time such as `10/Oct/2000:13:55:36 -0700` at *i*; NO_TIME where it is none."""
    day, century, year = _two(data, i), _two(data, i + 7), _two(data, i + 9)
    hour, minute, second = _two(data, i + 12), _two(data, i + 15), _two(data, i + 18)
    zone_hour, zone_minute = _two(data, i + 22), _two(data, i + 24)
    if min(day - 1, century, year, hour, minute, second, zone_hour, zone_minute) < 0:
        return NO_TIME
    if hour > 23 or minute > 59 or second > 60 or zone_hour > 23 or zone_minute > 59:
        return NO_TIME
    slashes, colons = data[i + 2] == 47 == data[i + 6], data[i + 11] == 58 == data[i + 14] == data[i + 17]
    sign = data[i + 21]
    if not (slashes and colons and data[i + 20] == _SPACE and (sign == 43 or sign == _DASH)):
        return NO_TIME
    name = np.int64(data[i + 3]) << 16 | np.int64(data[i + 4]) << 8 | np.int64(data[i + 5])
    month = 0
    for k in range(12):
        if _MONTHS[k] == name:
            month = k + 1
    year += 100 * century
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 30 if month in (4, 6, 9, 11) else 31 if month != 2 else 29 if leap else 28
    if month == 0 or year < 1 or day > longest:
        return NO_TIME
    # Days since 1970 by the calendar that begins in March.
    if month <= 2:
        year -= 1
        month += 12
    days = year * 365 + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719469
    ahead = (zone_hour * 60 + zone_minute) * 60
    return days * 86400 + (hour * 60 + minute) * 60 + second - (ahead if sign == 43 else -ahead)


@Kernel
def _split_request(data: Any, start: int, fields: Any) -> Any:
    """Put the parts of the request at *start* into *fields*; where its quote is, or -1 where it is not plain."""
    stop = find_quote(data, start)
    if data[stop] != _QUOTE:
        return -1
    fields[METHOD] = OTHER_METHOD
    fields[OLD_VERSION] = 0
    i = start
    while _TOKEN[data[i]]:
        i += 1
    if i == start or i >= stop or data[i] != _SPACE:
        # No method: all of it is target, and "-" is nothing.
        nothing = stop - start == 1 and data[start] == _DASH
        fields[TARGET] = start
        fields[TARGET_END] = start if nothing else stop
        return stop
    if i - start == 3 and data[start] == 71 and data[start + 1] == 69 and data[start + 2] == 84:
        fields[METHOD] = GET
    elif i - start == 4 and data[start] == 72 and data[start + 1] == 69 and data[start + 2] == 65:
        fields[METHOD] = HEAD if data[start + 3] == 68 else OTHER_METHOD
    fields[TARGET] = i + 1
    fields[TARGET_END] = stop
    # The target ends at the last " HTTP/" behind which there is no space.
    k = stop - 1
    if stop - i > 16 and eight(data, np.uint64(stop - 8)) | _LAST_BIT == _HTTP_1:
        k = stop - 9
    while k > i and not _BLANK[data[k]]:
        k -= 1
    if (
        k > i and k + 6 <= stop and data[k] == _SPACE and data[k + 1] == 72 and data[k + 2] == 84
        and data[k + 3] == 84 and data[k + 4] == 80 and data[k + 5] == 47
    ):  # fmt: skip
        fields[TARGET_END] = k
        if stop - k == 9 and data[k + 6] == 49 and data[k + 7] == 46 and data[k + 8] == 48:
            fields[OLD_VERSION] = 1
    return stop


@Kernel
def _split_names(data: Any, start: int, vhost: bool, fields: Any) -> Any:
    """Put virtual host, client and user into *fields*; where the time begins, or -1 where they are not plain."""
    i = start
    if vhost:
        end = _word_end(data, i)
        fields[HOST_END] = end
        i = end + 1
        if end < 0:
            return -1
    end = _word_end(data, i)
    if end < 0 or (vhost and end - i == 1 and data[i] == _DASH):
        return -1
    fields[CLIENT] = i
    fields[CLIENT_END] = end
    if eight(data, np.uint64(end)) & _FIVE_BYTES == _NOBODY:
        fields[USER] = end + 3
        fields[USER_END] = end + 4
        return end + 5
    i = end + 1
    end = _word_end(data, i)
    if end < 0 or (vhost and (end - i != 1 or data[i] != _DASH)):
        return -1
    i = end + 1
    end = _word_end(data, i)
    fields[USER] = i
    fields[USER_END] = end
    return end + 1 if end >= 0 else -1


@Kernel
def split(data: Any, start: int, vhost: bool, fields: Any) -> Any:
    """
    Take the line at *start* apart, into *fields*; where it ends, or -1 where it is not plain.

    The time is only found, not read. *vhost* says that the line begins with a virtual host.
    """
    i = _split_names(data, start, vhost, fields)
    if i < 0 or data[i] != 91 or data[i + 27] != 93 or data[i + 28] != _SPACE or data[i + 29] != _QUOTE:
        return -1
    fields[TIME] = i + 1
    i = _split_request(data, i + 30, fields)
    if i < 0 or data[i + 1] != _SPACE:
        return -1
    i += 2
    fields[STATUS] = 0
    if data[i] == _DASH:
        i += 1
    else:
        hundreds, rest = np.int64(data[i]) - 48, _two(data, i + 1)
        if hundreds < 0 or hundreds > 9 or rest < 0:
            return -1
        fields[STATUS] = hundreds * 100 + rest
        i += 3
    if data[i] != _SPACE:
        return -1
    i += 1
    size = i
    if data[i] == _DASH:
        i += 1
    else:
        while 48 <= data[i] <= 57:
            i += 1
    if i == size:
        return -1
    fields[REFERRER] = fields[REFERRER_END] = fields[AGENT] = fields[AGENT_END] = i
    if data[i] == _SPACE:
        if data[i + 1] != _QUOTE:
            return -1
        end = find_quote(data, i + 2)
        if data[end] != _QUOTE or data[end + 1] != _SPACE or data[end + 2] != _QUOTE:
            return -1
        fields[REFERRER] = i + 2
        fields[REFERRER_END] = end
        i = find_quote(data, end + 3)
        if data[i] != _QUOTE:
            return -1
        fields[AGENT] = end + 3
        fields[AGENT_END] = i
        i += 1
        if data[i] == _SPACE:
            return find_line_end(data, i)
    while data[i] == _RETURN:
        i += 1
    return i if data[i] == _NEWLINE else -1
