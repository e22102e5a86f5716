"""The parts of a training crawler: its order, its pauses, where it may go, and how its visits are labelled."""

from __future__ import annotations

import socket
import statistics

import pytest

from hedgerow.core.visit import Visit
from hedgerow.errors import HedgerowError, StoreError
from hedgerow.lab.crawl.own_hosts import Origin, is_own, own_origin, source_address
from hedgerow.lab.crawl.schedule import Frontier, parse_delay
from hedgerow.ledger.labels import Label, add_label, label_of, labels_path, read_labels

TREE = {"/": ["/a", "/b", "/c"], "/a": ["/a1", "/a2"], "/b": ["/b1", "/b2"], "/a1": ["/a11"]}


def crawl(order, seed=None) -> list[str]:
    frontier, found = Frontier(order, seed), []
    frontier.add(["/"])
    while (link := frontier.next()) is not None:
        found.append(link)
        frontier.add(TREE.get(link, []))
    return found


def test_links_come_in_the_order_asked_for():
    assert crawl("depth") == ["/", "/a", "/a1", "/a11", "/a2", "/b", "/b1", "/b2", "/c"]
    assert crawl("breadth") == ["/", "/a", "/b", "/c", "/a1", "/a2", "/b1", "/b2", "/a11"]
    assert crawl("random", 1) == crawl("random", 1)
    assert len({tuple(crawl("random", seed)) for seed in range(20)}) > 10
    assert sorted(crawl("random")) == sorted(crawl("depth"))


def test_random_order_returns_any_waiting_link():
    firsts = []
    for seed in range(300):
        frontier = Frontier("random", seed)
        frontier.add(["/1", "/2", "/3"])
        firsts.append(frontier.next())
    assert all(70 < firsts.count(link) < 130 for link in ("/1", "/2", "/3"))


def test_the_frontier_is_bounded(monkeypatch):
    monkeypatch.setattr("hedgerow.lab.crawl.schedule._MAX_LINKS", 10)
    for order, first in (("depth", "/90"), ("breadth", "/0")):
        frontier = Frontier(order)
        for n in range(0, 100, 10):
            frontier.add(f"/{n + k}" for k in range(10))
        assert len(frontier._waiting) == 10
        assert frontier.next() == first


def test_delays_are_constant_or_normally_distributed():
    assert parse_delay("8")() == 8.0
    drawn = parse_delay(" normal( 8, 1 ) ", seed=2)
    some = [drawn() for _ in range(500)]
    assert abs(statistics.fmean(some) - 8) < 0.2
    assert 0.8 < statistics.stdev(some) < 1.2
    often = parse_delay("normal(0,5)", seed=1)
    assert min(often() for _ in range(100)) == 0.0


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", "normal(8)", "normal(1.2.3,1)"])
def test_invalid_delays_are_refused(text):
    with pytest.raises(ValueError, match="write seconds"):
        parse_delay(text)


def resolve(monkeypatch, *addresses):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_a_site_on_this_machine_is_accepted():
    assert own_origin("http://127.0.0.1:8080/x") == Origin("http", "127.0.0.1", 8080, "127.0.0.1")
    assert source_address(own_origin("http://127.0.0.1:8080/")) == "127.0.0.1"
    assert is_own("127.9.9.9")
    assert is_own("::1")


@pytest.mark.parametrize("addresses", [("192.0.2.1",), ("127.0.0.1", "192.0.2.1"), ("0.0.0.0",), ("224.0.0.1",)])
def test_another_host_is_refused_unless_it_is_allowed(monkeypatch, addresses):
    resolve(monkeypatch, *addresses)
    with pytest.raises(HedgerowError, match="not this machine"):
        own_origin("http://site.example/")
    with pytest.raises(HedgerowError, match="not this machine"):
        own_origin("http://site.example/", ["other.example"])
    assert own_origin("https://Site.example/", ["SITE.example"]).port == 443


@pytest.mark.parametrize("url", ["", "site.example", "ftp://127.0.0.1/", "http://", "http://[x/", "http://h:99999/"])
def test_invalid_urls_are_refused(url):
    with pytest.raises(HedgerowError, match="is not an address"):
        own_origin(url)


def test_urls_of_the_same_origin_belong_to_the_site():
    origin = own_origin("http://127.0.0.1:8080/")
    assert origin.has("http://127.0.0.1:8080/~abc?x=1")
    for url in ("https://127.0.0.1:8080/", "http://127.0.0.1/", "http://localhost:8080/", "http://[", "mailto:a@b"):
        assert not origin.has(url)


def test_labels_are_written_and_read_again(tmp_path):
    path = labels_path(tmp_path / "ledger.sqlite")
    assert read_labels(path) == []
    label = Label("127.0.0.1", "agent", "site:80", 100.0, 200.0, "depth-first")
    add_label(path, label)
    add_label(path, Label("127.0.0.2", "agent", "site:80", 100.0, 200.0, "mine"))
    labels = read_labels(path)
    visit = Visit(150.0, "127.0.0.1", "account:ann", "127.0.0.1", "GET", "/", host="Site:80", user_agent="agent")
    assert label_of(visit, labels) == "depth-first"
    for field, value in (("at", 99.0), ("at", 201.0), ("address", "127.0.0.9"), ("user_agent", "x"), ("host", "y")):
        assert label_of(Visit(**{**_fields(visit), field: value}), labels) == ""
    path.write_text("no label\n")
    with pytest.raises(StoreError, match="labels"):
        read_labels(path)


def _fields(visit: Visit) -> dict[str, object]:
    return {name: getattr(visit, name) for name in visit.__struct_fields__}
