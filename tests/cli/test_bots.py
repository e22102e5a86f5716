"""`hedgerow bots`: lists read from a folder or an address, and who is a bot."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fakedns import FakeDns

from .test_cli import run  # noqa: F401 - a fixture

GOOGLE = '{"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}, {"ipv6Prefix": "2001:db8::/48"}]}'
AGENT = "Mozilla/5.0 (compatible; Googlebot/2.1)"
GPT = "GPTBot/1.2"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path / "state"))
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "googlebot.json").write_text(GOOGLE)
    (lists / "gptbot.json").write_text('{"prefixes": [{"ipv4Prefix": "198.51.100.0/24"}]}')
    (lists / "uptimerobot.txt").write_text("203.0.113.1\n")
    (lists / "unrelated.txt").write_text("x")
    return lists


@pytest.fixture
def dns(monkeypatch):
    with FakeDns() as server:
        monkeypatch.setenv("HEDGEROW__BOTS__RESOLVER", server.server)
        yield server


def test_lists_are_read_from_a_folder(run, folder, tmp_path):  # noqa: F811
    status, out, err = run("bots", "update", str(folder))
    assert (status, err) == (0, "")
    assert out.splitlines()[:3] == [
        "googlebot.json: 2 networks",
        "gptbot.json: 1 networks",
        "uptimerobot.txt: 1 networks",
    ]
    assert (tmp_path / "state" / "ranges.json").exists()
    status, out, err = run("bots", "show")
    assert "googlebot.json (0 days old)" in out
    assert "bingbot.json (not read)" in out
    assert "nothing: it cannot be verified" in out


def test_a_bad_list_is_reported_and_the_good_ones_are_read(run, folder):  # noqa: F811
    run("bots", "update", str(folder))
    (folder / "googlebot.json").write_text("<html>404</html>")
    (folder / "gptbot.json").write_text("0.0.0.0/0")
    status, out, err = run("bots", "update", str(folder))
    assert status == 1
    assert err.splitlines() == [
        "googlebot.json: '<html>404</html>' is no network", "gptbot.json: 0.0.0.0/0 is too wide to be a bot's",
    ]  # fmt: skip
    assert "1 lists read" in out
    assert run("bots", "check", "192.0.2.7", "--user-agent", GPT)[1].startswith(
        "192.0.2.7 as GPTBot (ai-training): a false"
    )


@pytest.mark.parametrize(
    "source", ["nowhere", "https://", "http://127.0.0.1:1/googlebot.json", "https://x.example/other"]
)
def test_a_source_that_cannot_be_read_is_reported(run, folder, dns, source):  # noqa: F811, ARG001
    status, _out, err = run("bots", "update", source)
    assert status == 1
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("hedgerow: ")


def test_an_empty_folder_is_reported(run, folder, tmp_path):  # noqa: F811, ARG001
    (tmp_path / "empty").mkdir()
    status, _out, err = run("bots", "update", str(tmp_path / "empty"))
    assert (status, "holds none of the lists" in err) == (1, True)


def test_lists_are_read_from_a_url(run, folder):  # noqa: F811
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        base = f"http://127.0.0.1:{server.server_port}/"
        status, out, err = run("bots", "update", base + "googlebot.json")
        assert (status, err) == (0, "")
        assert out.startswith("googlebot.json: 2 networks")
        status, out, err = run("bots", "update", base)
        assert (status, "3 lists read" in out) == (1, True)
        assert "bingbot.json: it was answered with status 404" in err
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_check_says_whether_an_address_is_a_bots(run, folder, dns):  # noqa: F811
    dns.is_true("203.0.113.9", "crawl.googlebot.com")
    dns.names["203.0.113.66"] = "googlebot.com.evil.example"
    check = lambda *more: run("bots", "check", *more)[1].strip()  # noqa: E731
    assert check("203.0.113.9", "-A", AGENT) == "203.0.113.9 as Googlebot (search): verified; policy: pass"
    assert check("203.0.113.66", "-A", AGENT) == "203.0.113.66 as Googlebot (search): a false claim; policy: pass"
    assert check("203.0.113.9", "-A", "curl/8") == "this user agent names no known bot"
    assert "cannot be verified" in check("203.0.113.9", "-A", GPT)
    assert "Googlebot (search): verified" in check("203.0.113.9")
    assert check("203.0.113.66") == "203.0.113.66 is not verified as any known bot"
    dns.mood = "failing"
    assert "no name server responds" in check("203.0.113.9", "-A", AGENT)
    run("bots", "update", str(folder))
    assert check("192.0.2.7", "-A", AGENT).endswith("(search): verified; policy: pass")
    status, _, err = run("bots", "check", "nobody")
    assert (status, err) == (2, "nobody is not an address\n")
