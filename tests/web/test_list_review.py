"""Entries are looked at again: which are renewed, which end, and which are above their volume."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing

import pytest

from driving import settings
from hedgerow.cli.main import main
from hedgerow.core.daily_limits import DailyLimits
from hedgerow.core.ledger import Entry
from hedgerow.core.visit import Visit
from hedgerow.ledger.reader import open_ledger_reader
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.lists.model import OWN_AUTHOR, Listing, Lists, decide
from hedgerow.web.daily_limits import DailyLimitsThread
from hedgerow.web.list_review import DAY, review, review_own
from hedgerow.web.stores import build_list_store

NOW = 1_800_000_000.0
WEEK = 7 * DAY


def black(subject: str, *, left: float = 0.5 * DAY, length: float = WEEK, author: str = OWN_AUTHOR, now=NOW) -> Listing:
    return Listing("black", subject, "crawls", author, now + left - length, now + left)


def fill(tmp_path, entry: Listing, address: str, pages: int, *, at: float = NOW - 3600, kind: str = "page") -> None:
    """Visits on which *entry* decided."""
    match = Lists([entry]).find(at, address)
    assert match is not None
    with closing(SqliteLedger(tmp_path / "ledger.sqlite")) as ledger:
        for _ in range(pages):
            ledger.append(Entry(Visit(at, address, address, address, "GET", "/", kind=kind), decide(match), 403))


@pytest.mark.parametrize(
    ("entry", "pages", "verdict"),
    [
        (black("192.0.2.1"), 301, "renew"),
        (black("192.0.2.0/24"), 301, "renew"),
        (black("192.0.2.1"), 300, "end"),
        (black("192.0.2.1", left=3 * DAY), 900, "keep"),
        (black("192.0.2.1", author="ann"), 900, "keep"),
        (Listing("black", "192.0.2.1", "", OWN_AUTHOR, NOW - WEEK, 0.0), 900, "keep"),
        (Listing("white", "192.0.2.1", "", "ann", NOW - WEEK, 0.0), 400, "too much"),
        (Listing("white", "192.0.2.1", "", "ann", NOW - WEEK, 0.0), 399, "keep"),
    ],
)
def test_what_follows_for_an_entry(tmp_path, entry, pages, verdict):
    fill(tmp_path, entry, "192.0.2.1", pages)
    with closing(open_ledger_reader(str(tmp_path / "ledger.sqlite"))) as reader:
        (found,) = review([entry], reader, NOW, white_volume=400)
    assert (found.pages, found.verdict) == (pages, verdict)


def test_only_pages_of_the_last_day_count(tmp_path):
    entry = black("192.0.2.1", left=0.2 * DAY)
    fill(tmp_path, entry, "192.0.2.1", 900, at=NOW - DAY - 1)
    fill(tmp_path, entry, "192.0.2.1", 900, kind="asset")
    with closing(open_ledger_reader(str(tmp_path / "ledger.sqlite"))) as reader:
        assert [one.verdict for one in review([entry], reader, NOW, white_volume=400)] == ["end"]


def test_a_running_hedgerow_renews_who_still_crawls_and_nobody_else(tmp_path):
    now = time.time()
    own = settings(f"directory = '{tmp_path}'")
    store = build_list_store(own)
    entries = [black("192.0.2.1", now=now), black("192.0.2.2", now=now), black("192.0.2.3", now=now, author="ann")]
    store.put(entries)
    for entry, pages in zip(entries, (400, 20, 400), strict=True):
        fill(tmp_path, entry, entry.subject, pages, at=now - 3600)
    clock = [now]
    with closing(DailyLimitsThread(own, DailyLimits(), counts=True, also=review_own, clock=lambda: clock[0])) as thread:
        thread.step()
        assert [one.until for one in store.read()] == [one.until for one in entries], "not at once"
        clock[0] = now + 120
        thread.step()
    until = {one.subject: one.until for one in store.read()}
    assert until["192.0.2.1"] == now + 120 + WEEK
    assert (until["192.0.2.2"], until["192.0.2.3"]) == (entries[1].until, entries[2].until)


def test_the_command_shows_it(tmp_path, monkeypatch, capsys):
    now = time.time()
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path))
    entry = black("192.0.2.1", now=now)
    build_list_store(settings(f"directory = '{tmp_path}'")).put([entry])
    fill(tmp_path, entry, "192.0.2.1", 301, at=now - 60)
    for options in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["hedgerow", "lists", "review", *options])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0
        said = capsys.readouterr().out
        if options:
            assert [(one["subject"], one["pages"], one["verdict"]) for one in json.loads(said)] == [
                ("192.0.2.1", 301, "renew")
            ]
        else:
            assert "still crawls" in said
