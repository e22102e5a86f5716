"""How long the site takes for a page: a moving mean, by which rate limits adapt to slow sites."""

from __future__ import annotations

_LONGEST = 10.0
"""Seconds of one page that count. A page that hangs must not make the site look slow for long."""
_PAGES = 200
"""About how many of the last pages the mean is made of."""
_LEAST_PAGES = 20


class PageTimes:
    """The mean of the seconds from a request for a page to the start of the site's response, in this process."""

    __slots__ = ("_mean", "_pages")

    def __init__(self) -> None:
        self._mean = 0.0
        self._pages = 0

    @property
    def seconds(self) -> float:
        """The mean, or 0 while too few pages are known."""
        return self._mean if self._pages >= _LEAST_PAGES else 0.0

    def add(self, seconds: float) -> None:
        """
        Add the time of one page.

        >>> times = PageTimes()
        >>> for _ in range(100):
        ...     times.add(0.25)
        >>> times.seconds
        0.25
        """
        self._pages = min(self._pages + 1, _PAGES)
        self._mean += (min(seconds, _LONGEST) - self._mean) / self._pages
