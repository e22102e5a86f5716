"""Block lists of others: read from a server on 127.0.0.1 and from files, with everything that can go wrong."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from driving import Clock
from hedgerow.cli.main import main
from hedgerow.errors import SettingsError
from hedgerow.lists.model import Listing
from hedgerow.lists.sql_store import ListFilter
from hedgerow.settings import read_settings
from hedgerow.web.app import Site
from hedgerow.web.stores import build_list_store
from hedgerow.web.subscriptions import SubscriptionThread, read_readings


class Server:
    """Serves one list at 127.0.0.1, with an ETag."""

    def __init__(self) -> None:
        self.body, self.status = b"192.0.2.1\n198.51.100.0/24\n", 200
        self.statuses: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                etag = f'"{hash(outer.body)}"'
                is_same = self.headers.get("if-none-match") == etag
                status = 304 if is_same and outer.status == 200 else outer.status
                outer.statuses.append(status)
                self.send_response(status)
                self.send_header("etag", etag)
                self.send_header("content-length", "0" if status == 304 else str(len(outer.body)))
                self.end_headers()
                if status != 304:
                    self.wfile.write(outer.body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/list.txt"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


def settings_for(tmp_path, source: str, more: str = "", top: str = ""):
    text = f"directory = '{tmp_path}'\n{top}[[lists.subscriptions]]\nname = 'drop'\n{source}\nevery = 60\n{more}"
    return read_settings(text, environment={})


def subjects(settings, author: str = "subscription: drop") -> list[str]:
    return [one.subject for one in build_list_store(settings).read(ListFilter(author=author))]


def test_a_list_is_read_when_it_is_due_and_asked_for_only_if_it_changed(tmp_path, server):
    settings, clock = settings_for(tmp_path, f"url = '{server.url}'"), Clock(1_000_000.0)
    thread = SubscriptionThread(settings, clock=clock)
    assert thread.step() == 1
    assert subjects(settings) == ["192.0.2.1", "198.51.100.0/24"]
    assert thread.step() == 0
    clock.now += 61
    assert thread.step() == 1
    assert server.statuses == [200, 304]
    (entry,) = build_list_store(settings).read(ListFilter(subject="192.0.2.1"))
    assert entry.until == clock.now + 604_800.0
    server.body = b"192.0.2.2\n"
    clock.now += 61
    thread.step()
    assert subjects(settings) == ["192.0.2.2"]
    assert thread.failures == 0


@pytest.mark.parametrize(
    ("status", "body"), [(500, b"192.0.2.9\n"), (404, b""), (302, b""), (200, b"<html>not a list</html>\n")]
)
def test_a_failed_reading_keeps_the_last_good_list(tmp_path, server, status, body):
    settings, clock = settings_for(tmp_path, f"url = '{server.url}'"), Clock(1_000_000.0)
    thread = SubscriptionThread(settings, clock=clock)
    thread.step()
    server.status, server.body = status, body
    clock.now += 61
    thread.step()
    assert subjects(settings) == ["192.0.2.1", "198.51.100.0/24"]
    known = read_readings(settings)["drop"]
    assert (thread.failures, known.failures, known.entries) == (1, 1, 2)
    assert known.error
    assert known.read_at < known.tried_at


def test_a_list_that_is_too_large_is_a_failure(tmp_path, server):
    server.body = b"192.0.2.1\n" * 1000
    settings = settings_for(tmp_path, f"url = '{server.url}'", "max_bytes = 500\n")
    thread = SubscriptionThread(settings)
    thread.step()
    assert thread.failures == 1
    assert subjects(settings) == []


def test_no_subscription_blocks_this_machine_its_proxies_or_half_of_the_internet(tmp_path):
    file = tmp_path / "list.txt"
    lines = [
        "127.0.0.1", "127.0.0.0/8", "::1", "0.0.0.0/0", "::/0", "10.0.0.0/8", "10.9.9.9", "203.0.113.7",
        "203.0.113.0/24", "account:ann", "agent:*Mozilla*", "192.0.2.1", "2001:db8::/32", "8.0.0.0/7",
    ]  # fmt: skip
    file.write_text("\n".join(lines))
    top = (
        "[identity]\ntrusted_proxies = ['10.0.0.0/8']\n"
        "[proxy]\nlisten = '203.0.113.7:80'\nupstream = 'http://198.51.100.5:80'\n"
    )
    settings = settings_for(tmp_path, f"file = '{file}'", top=top)
    SubscriptionThread(settings).step()
    assert subjects(settings) == ["192.0.2.1", "2001:db8::/32"]
    assert read_readings(settings)["drop"].left_out == len(lines) - 2


def test_an_entry_of_the_operator_stays(tmp_path):
    file = tmp_path / "list.txt"
    file.write_text("192.0.2.1\n192.0.2.2\n")
    settings = settings_for(tmp_path, f"file = '{file}'")
    build_list_store(settings).put([Listing("white", "192.0.2.1", "ours", "ann", 1.0)])
    SubscriptionThread(settings).step()
    assert subjects(settings) == ["192.0.2.2"]
    assert subjects(settings, "ann") == ["192.0.2.1"]


def test_a_running_site_uses_a_subscription_and_a_command_shows_it(tmp_path, server, monkeypatch, capsys):
    settings = settings_for(tmp_path, f"url = '{server.url}'")
    site = Site(settings)
    try:
        deadline = time.monotonic() + 30
        while site.lists.find(time.time(), "198.51.100.9") is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert site.lists.find(time.time(), "198.51.100.9") is not None
        assert site.own_metrics().store_errors["subscriptions"] == 0
    finally:
        site.close()
    config = tmp_path / "hedgerow.toml"
    config.write_text(f"directory = '{tmp_path}'\n[[lists.subscriptions]]\nname = 'drop'\nurl = '{server.url}'\n")
    monkeypatch.setattr(sys, "argv", ["hedgerow", "lists", "subscriptions", "--json", "--config", str(config)])
    with pytest.raises(SystemExit):
        main()
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["entries"], shown["error"]) == ("drop", 2, "")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("name = 'a'\n", "name one source: url or file"),
        ("name = 'a/b'\nfile = '/x'\n", "must be letters, digits"),
        ("name = 'a'\nurl = 'ftp://x'\n", "is not an address such as"),
        ("name = 'a'\nfile = '/x'\nevery = 1\n", "must be at least 60"),
        ("name = 'a'\nfile = '/x'\nkeep = 61\n", "must be at least every"),
        ("name = 'a'\nfile = '/x'\n[[lists.subscriptions]]\nname = 'a'\nfile = '/y'\n", "another subscription"),
    ],
)
def test_wrong_subscriptions_are_named(text, fault):
    with pytest.raises(SettingsError) as raised:
        read_settings(f"[[lists.subscriptions]]\n{text}", environment={})
    assert any(fault in one for one in raised.value.faults)
