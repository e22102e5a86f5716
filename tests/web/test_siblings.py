"""Several processes of one application: what an operator does in one of them counts in all."""

from __future__ import annotations

import time

import msgspec
import pytest

from driving import settings
from hedgerow.core.decision import Block, Evidence
from hedgerow.web import siblings
from hedgerow.web.app import Site
from hedgerow.web.run_file import RunRecord
from hedgerow.web.siblings import has_siblings, open_orders, read_all
from real.servers import wait_for

ME, OTHER = "192.0.2.7", "192.0.2.8"


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Two sites with one directory, as two processes have them."""
    record = RunRecord(1, "", str(tmp_path), "", msgspec.Raw(b"{}"))
    monkeypatch.setattr(siblings, "find_running", lambda: ([record], []))
    sites = [Site(settings(f"directory = '{tmp_path}'")) for _ in range(2)]
    yield sites
    for site in sites:
        site.close()


def block(key: str) -> Block:
    now = time.time()
    return Block(key, key, now, now + 600, "refuse", Evidence("administrator", "administrator", 1.0, "By hand."))


def blocked(site: Site) -> set[str]:
    return {one.key for one in site.stores.state.blocks(time.time())}


def test_a_block_counts_here_at_once_and_there_soon(two):
    here, there = two
    with open_orders(here) as order:
        assert order(ME, block(ME))
    assert blocked(here) == {ME}
    wait_for("the block", lambda: blocked(there) == {ME})
    with open_orders(there) as order:
        assert order(ME, None)
        assert not order(ME, None)
    wait_for("the end", lambda: not blocked(here))
    assert not blocked(there)


def test_what_another_process_has_found_is_seen_and_can_be_forgiven(two):
    here, there = two
    there.stores.state.commit(block(OTHER))
    wait_for("the journal", lambda: {one.key for one in read_all(here, time.time())[0]} == {OTHER})
    assert not blocked(here)
    with open_orders(here) as order:
        assert order(OTHER, None)
    assert read_all(here, time.time())[0] == []
    wait_for("the end", lambda: not blocked(there))


def test_one_process_alone_asks_no_journal(two, monkeypatch, tmp_path):
    here, there = two
    assert has_siblings(here)
    elsewhere = RunRecord(1, "", str(tmp_path / "elsewhere"), "", msgspec.Raw(b"{}"))
    monkeypatch.setattr(siblings, "find_running", lambda: ([elsewhere], []))
    assert not has_siblings(here)
    there.stores.state.commit(block(OTHER))
    with open_orders(here) as order:
        assert order(OTHER, None) is False
    assert blocked(there) == {OTHER}
