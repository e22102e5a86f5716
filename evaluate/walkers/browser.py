"""A driven browser: `browser.py URL PAGES ORDER MIN MAX`. Chromium, with MIN to MAX seconds on a page."""

from __future__ import annotations

import random
import sys
import time
from urllib.parse import urldefrag, urlsplit

from playwright.sync_api import Error, sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]


def main(start: str, pages: int, order: str, minimum: float, maximum: float) -> None:
    rng = random.Random(start)
    frontier, seen = [start], {start}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        page = browser.new_page()
        for _ in range(pages):
            if not frontier:
                break
            url = frontier.pop(0 if order == "breadth" else rng.randrange(len(frontier)))
            try:
                page.goto(url, wait_until="load", timeout=20_000)
                links = page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)")
            except Error:
                continue
            for link in links:
                target = urldefrag(link)[0]
                if urlsplit(target).netloc == urlsplit(start).netloc and target not in seen:
                    seen.add(target)
                    frontier.append(target)
            time.sleep(rng.uniform(minimum, maximum))
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), float(sys.argv[5]))
