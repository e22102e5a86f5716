"""
What the scripts of Hedgerow cost a page in Chromium: first paint and load, with and without them.

The same page comes from the same site three times: as nginx sends it; through Hedgerow with `challenge.silent = false`,
so without the script that obtains a clearance; and through Hedgerow with default settings. They take turns. Each view
is the first of a new visitor with an empty cache, so that the script is fetched, and calculates. Every visitor has an
address of its own, which a trusted proxy names. The page is read for a moment before the next one, so that no
calculation runs while another page loads.

On a busy machine a view takes twice as long as the one before. So the lowest decile stands next to the median: what the
page takes where nothing else runs.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Sequence

from playwright.sync_api import Browser, sync_playwright

import bench.arena
from bench.arena.stage import missing, stage
from real.browsing import ARGUMENTS, CHROMIUM, VIEWPORT

assert bench.arena
ROUNDS = 30
GOAL = 10.0
PAGE = "/sql-select.html"
TRUSTED = '[identity]\ntrusted_proxies = ["127.0.0.1/32"]\n'
_TIMES = """() => {
  const [page] = performance.getEntriesByType("navigation");
  const paint = performance.getEntriesByType("paint").find(({ name }) => name === "first-contentful-paint");
  return page.loadEventEnd && paint ? [paint.startTime, page.loadEventEnd] : null;
}"""
READING = 700
"""Milliseconds."""


def view(browser: Browser, url: str, address: str) -> tuple[float, float, bool]:
    """First paint and load in milliseconds, and whether the script of Hedgerow was fetched."""
    headers = {"X-Forwarded-For": address}
    with contextlib.closing(browser.new_context(viewport=VIEWPORT, extra_http_headers=headers)) as context:
        page = context.new_page()
        fetched: list[str] = []
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(url + PAGE)
        found = page.wait_for_function(_TIMES).json_value()
        page.wait_for_timeout(READING)
        return found[0], found[1], any("/page.js" in one for one in fetched)


def main(_: Sequence[str] = ()) -> None:
    if missing():
        print(f"not installed: {', '.join(missing())}; not measured")
        return
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(stage("static", "none"))
        off = stack.enter_context(stage("static", "hedgerow", settings=TRUSTED + "[challenge]\nsilent = false\n"))
        on = stack.enter_context(stage("static", "hedgerow", settings=TRUSTED))
        candidates = {"nginx alone": plain.url, "Hedgerow, no script": off.url, "Hedgerow, with the script": on.url}
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        stack.callback(browser.close)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in candidates}
        for turn in range(-3, ROUNDS):
            for name, url in candidates.items():
                paint, load, fetched = view(browser, url, f"198.51.{turn + 3}.7")
                assert fetched == (name == "Hedgerow, with the script"), f"{name}: {fetched}"
                if turn >= 0:
                    found[name].append((paint, load))
    report(found)


def report(found: dict[str, list[tuple[float, float]]]) -> None:
    """Print medians, quartiles, and the medians of what two views of the same round differ by."""
    reference = found["Hedgerow, no script"]
    for name, its in found.items():
        for what, index in (("first paint", 0), ("load", 1)):
            times = [one[index] for one in its]
            low, middle, high = statistics.quantiles(times, n=4)
            least = statistics.quantiles(times, n=10)[0]
            line = f"{name:28} {what:12} median {middle:6.1f} ms   quartiles {low:6.1f} to {high:6.1f}"
            line += f"   lowest decile {least:6.1f}"
            if name == "Hedgerow, with the script":
                each = [one[index] - other[index] for one, other in zip(its, reference, strict=True)]
                low, middle, high = statistics.quantiles(each, n=4)
                line += f"   more than without: {middle:.1f} ms (quartiles {low:.1f} to {high:.1f})   goal {GOAL:g} ms"
            print(line)
