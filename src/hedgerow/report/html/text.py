"""
Words: how numbers, times and what strangers wrote are put into the page.

User agents, addresses and bad lines come from whoever sent a request. Everything goes through `escaped`, and the page
is ASCII as a whole: whatever bytes a log has, nothing of it is markup.
"""

from __future__ import annotations

import html

from hedgerow.logs.formats import iso, readable

_LONGEST = 200


def escaped(text: str) -> str:
    r"""
    *text* as it may stand in the page, between tags or in an attribute in quotes.

    >>> escaped("<b title='x'>\x1b[2J caf\xe9")
    '&lt;b title=&#x27;x&#x27;&gt;\\x1b[2J caf&#233;'
    """
    return html.escape(readable(text)).encode("ascii", "xmlcharrefreplace").decode()


def cut(text: str, longest: int = _LONGEST) -> str:
    """The beginning of *text*, not escaped yet."""
    return text if len(text) <= longest else f"{text[:longest]} ..."


def number(value: float) -> str:
    return f"{value:,.0f}"


def percent(share: float) -> str:
    """
    A share; one that is not quite nothing or all is never rounded to it.

    >>> percent(0.5), percent(0.0324), percent(0.00004), percent(0.9999), percent(1.0), percent(0.0)
    ('50 %', '3.2 %', '0.004 %', '99.99 %', '100 %', '0 %')
    """
    value = share * 100
    if 0 < value < 0.1 or 99.9 < value < 100:  # noqa: PLR2004
        return f"{value:.2g} %" if value < 1 else f"{min(value, 99.99):.2f} %"
    return f"{round(value, 0 if 10 <= value <= 99 else 1):g} %"  # noqa: PLR2004


def counted(count: int, one: str, many: str) -> str:
    """
    So many things.

    >>> counted(1, "source", "sources"), counted(2000, "source", "sources")
    ('1 source', '2,000 sources')
    """
    return f"{count:,} {one if count == 1 else many}"


def when(at: float | None) -> str:
    """A time to the minute, in UTC."""
    text = iso(at)
    return text[:16].replace("T", " ") if text else "?"
