"""
A suspect in a real browser, in front of a Hedgerow that runs as anybody would start it.

The browser uses links that another address was given, until that is enough: it is asked to calculate, does so by itself
and arrives where it wanted; the third time in a day it is blocked, and an administrator forgives it with the reference
that it was shown.
"""

from __future__ import annotations

import http.client
import re
import subprocess

import pytest

from driving import marked_links_in

from .browsing import tab
from .servers import HEDGEROW, PATIENCE, clean_environment, wait_for

SETTINGS = """
[containment]
enabled = false
[policy]
silent = 0
weights = { minted-for-another = 0.35 }
[challenge]
difficulty = 500
hardest = 1000
seconds = 60
[responses]
contact = "ann@example.org"
[traps]
enabled = false
"""
OTHER = "127.0.0.77"
PAGES = ("preface.html", "history.html", "intro-whatis.html", "notation.html", "tutorial.html")


@pytest.fixture(scope="module")
def hedgerow(protect, site):
    return protect(site.url, settings=SETTINGS)


def links_of_another(port: int, page: str) -> list[str]:
    """The marked links of a page, as another address gets them."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE, source_address=(OTHER, 0))
    try:
        connection.request("GET", f"/{page}", headers={"accept": "text/html", "user-agent": "Mozilla/5.0"})
        answer = connection.getresponse()
        assert answer.status == 200
        return ["/" + link.removeprefix("/") for link in marked_links_in(answer.read())]
    finally:
        connection.close()


def visitors(hedgerow, *arguments: str) -> str:
    done = subprocess.run(
        [str(HEDGEROW), "visitors", *arguments, "--config", str(hedgerow.config)],
        capture_output=True, text=True, check=True, timeout=PATIENCE, cwd=hedgerow.folder,
        env=clean_environment(HEDGEROW__DIRECTORY=str(hedgerow.folder / "state")),
    )  # fmt: skip
    return done.stdout


def test_a_suspect_calculates_twice_is_blocked_the_third_time_and_forgiven(browser, hedgerow):
    shared = [link for page in PAGES for link in links_of_another(hedgerow.port, page)]
    assert len(shared) > 20
    challenged = 0
    with tab(browser) as page:
        decisions: list[str] = []
        page.on("response", lambda answer: decisions.append(answer.headers.get("hedgerow-decision", "")))
        for link in shared:
            decisions.clear()
            page.goto(hedgerow.url + link, wait_until="commit")
            page.wait_for_load_state()
            if any(decision.startswith("refuse") for decision in decisions):
                break
            if any(decision.startswith("challenge") for decision in decisions):
                challenged += 1
                # It solves it without a click and is where it wanted to go.
                page.wait_for_selector(".navheader, .book")
                assert page.url == hedgerow.plain(hedgerow.url + link)
        assert challenged == 2
        assert "too-many-challenges" in " ".join(decisions)
        text = page.inner_text("body")
        assert "ann@example.org" in text
        reference = re.search(r"[0-9A-F]{4}-[0-9A-F]{4}", text)
        assert reference is not None
        wait_for("the ledger", lambda: reference[0] in {visit["ref"] for visit in hedgerow.visits()})
        wait_for("it is shown", lambda: '"blocked"' in visitors(hedgerow, "show", reference[0], "--json"))
        assert "is forgiven" in visitors(hedgerow, "forgive", reference[0])

        def passes() -> bool:
            answer = page.goto(hedgerow.url + "/index.html")
            return answer is not None and answer.status == 200

        wait_for("it passes", passes)
