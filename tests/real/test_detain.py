"""Detained: decoys, slowly, within a budget, and never a real page again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import httpx

from driving import traps_in

from . import crawling
from .crawling import BROWSER
from .servers import PATIENCE, Nginx, Protect, wait_for

SETTINGS = '[traps]\nresponse = "detain"\n[detain]\nconnections = {connections}\nseconds = {seconds}\n'
MEGABYTE = 1_000_000


def test_wget_gets_decoys_slowly(
    site: Nginx,
    protect: Callable[..., Protect],
    documentation: Path,
    program: Callable[[str], str],
    address: Callable[[], str],
    tmp_path: Path,
) -> None:
    seconds = 1.0
    hedgerow = protect(site.url, settings=SETTINGS.format(connections=3, seconds=seconds))
    titles = crawling.titles_in(documentation)
    who = address()

    def caught() -> bool:
        """Three decoys, and something of a fourth."""
        return sum(visit["action"] == "detain" for visit in hedgerow.visits()) >= 4

    crawling.wget(program("wget"), hedgerow.url, who, tmp_path, "-e", "robots=off", until=caught)
    real = crawling.stored(tmp_path, titles)
    hedgerow.stop()
    visits = [visit for visit in hedgerow.visits() if visit["address"] == who]
    actions = [visit["action"] for visit in visits]
    fell = actions.index("detain")
    assert set(actions[fell:]) == {"detain"}
    assert len(actions) - fell >= 3, "too few decoys to tell anything"
    # One after the other, and each takes its time. A timer may be early by its resolution.
    starts = [visit["at"] for visit in visits[fell:]]
    assert min(b - a for a, b in pairwise(starts)) > seconds * 0.98
    assert len(real) <= fell
    assert site.pages_given_to(who) == {
        crawling.name_of(visit["target"])
        for visit in visits[:fell]
        if visit["action"] == "pass" and visit["target"].endswith(("/", ".html"))
    }
    known = set(titles.values())
    decoys = [
        page
        for page in (path.read_bytes() for path in tmp_path.rglob("*.html*") if path.is_file())
        if crawling.title_of(page) not in known and page.rstrip().endswith(b"</html>")
    ]
    assert decoys, "wget stored no whole decoy; the last one is cut short when wget is stopped"
    assert all(b'href="/~' in decoy for decoy in decoys)


def test_budget_holds(site: Nginx, protect: Callable[..., Protect], address: Callable[[], str]) -> None:
    """Three are detained, all others refused at once; when a place is free again, it is taken again."""
    hedgerow = protect(site.url, settings=SETTINGS.format(connections=3, seconds=600))
    who = address()

    async def ask() -> None:
        limits = httpx.Limits(max_connections=100)
        transport = httpx.AsyncHTTPTransport(local_address=who, limits=limits, trust_env=False)
        async with httpx.AsyncClient(
            transport=transport, base_url=hedgerow.url, headers=BROWSER, timeout=PATIENCE, trust_env=False
        ) as client:
            trap = traps_in((await client.get("/")).content)[0]
            held = []
            for target in (trap, "/preface.html", "/stylesheet.css"):
                answer = await client.send(client.build_request("GET", target), stream=True)
                assert answer.status_code == 200
                assert "hedgerow-decision" not in answer.headers, "a decoy must not say that it is one"
                held.append(answer)
            assert hedgerow.metric("hedgerow_detained") == 3
            before = hedgerow.memory()
            refused = await asyncio.gather(*(client.get(f"/sql-select.html?{n}") for n in range(300)))
            assert {answer.status_code for answer in refused} == {403}
            assert all(answer.headers["hedgerow-decision"].startswith("detain; code=trap") for answer in refused)
            assert hedgerow.memory() - before < 50 * MEGABYTE
            assert hedgerow.metric("hedgerow_detained") == 3
            await held.pop().aclose()
            await asyncio.to_thread(wait_for, "a free place", lambda: hedgerow.metric("hedgerow_detained") == 2)
            again = await client.send(client.build_request("GET", "/preface.html"), stream=True)
            assert again.status_code == 200
            for answer in (*held, again):
                await answer.aclose()

    asyncio.run(ask())
    wait_for("everybody has left", lambda: hedgerow.metric("hedgerow_detained") == 0)
    assert site.pages_given_to(who) == {"index.html"}


def test_stops_though_somebody_is_detained(
    site: Nginx, protect: Callable[..., Protect], address: Callable[[], str]
) -> None:
    """A crawler that is held for ten minutes does not hold Hedgerow for as long."""
    hedgerow = protect(
        site.url, settings=SETTINGS.format(connections=3, seconds=600) + "[proxy]\nshutdown_timeout = 2\n"
    )
    transport = httpx.HTTPTransport(local_address=address(), trust_env=False)
    options = {"base_url": hedgerow.url, "headers": BROWSER, "timeout": PATIENCE, "trust_env": False}
    with httpx.Client(transport=transport, **options) as client:
        trap = traps_in(client.get("/").content)[0]
        with client.stream("GET", trap) as answer:
            assert answer.status_code == 200
            assert hedgerow.metric("hedgerow_detained") == 1
            hedgerow.stop()
