"""The site goes down and comes back; Hedgerow is told to stop, or to read its settings again."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from driving import marked_links_in, traps_in

from .crawling import BROWSER
from .servers import HEDGEROW, PATIENCE, Nginx, Protect, answers, clean_environment, wait_for

BIG = 900_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "site"
    root.mkdir()
    (root / "index.html").write_text("<!DOCTYPE html><title>Home</title><body><a href='other.html'>Other</a></body>")
    (root / "other.html").write_text("<!DOCTYPE html><title>Other</title><body>Other</body>")
    (root / "big.bin").write_bytes(os.urandom(BIG))
    return root


def ask(hedgerow: Protect, target: str = "/", who: str = "127.0.0.1", **headers: str) -> httpx.Response:
    transport = httpx.HTTPTransport(local_address=who, trust_env=False)
    with httpx.Client(transport=transport, base_url=hedgerow.url, timeout=PATIENCE, trust_env=False) as client:
        return client.get(target, headers={**BROWSER, **headers})


def links_in(text: str) -> list[str]:
    return re.findall(r"""href=["']?([^"'> ]+)""", text)


def test_down_and_up_again(nginx: Callable[..., Nginx], protect: Callable[..., Protect], folder: Path) -> None:
    site = nginx(folder)
    hedgerow = protect(site.url)
    assert ask(hedgerow).status_code == 200
    site.stop()
    page = ask(hedgerow)
    assert page.status_code == 502
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["cache-control"] == "no-store"
    assert "<h1" in page.text
    assert "Traceback" not in page.text
    text = ask(hedgerow, Accept="application/json")
    assert (text.status_code, text.headers["content-type"]) == (502, "application/json")
    site.start()
    assert ask(hedgerow).status_code == 200
    assert hedgerow.blocked() == {}


def test_a_download_is_finished_before_the_end(
    nginx: Callable[..., Nginx], protect: Callable[..., Protect], folder: Path
) -> None:
    site = nginx(folder, more="location /big.bin { limit_rate 400k; }")
    hedgerow = protect(site.url)
    with (
        httpx.Client(base_url=hedgerow.url, timeout=PATIENCE, trust_env=False) as client,
        client.stream("GET", "/big.bin") as answer,
    ):
        pieces = answer.iter_raw()
        body = next(pieces)
        assert len(body) < BIG
        hedgerow.running.process.send_signal(signal.SIGTERM)
        wait_for("no new connections", lambda: not answers(hedgerow.port))
        body += b"".join(pieces)
    assert body == (folder / "big.bin").read_bytes()
    hedgerow.stop()


def test_a_site_that_dies_in_the_middle_is_not_passed_off_as_whole(
    nginx: Callable[..., Nginx], protect: Callable[..., Protect], folder: Path
) -> None:
    site = nginx(folder, more="location /big.bin { limit_rate 200k; }")
    hedgerow = protect(site.url)
    with (
        httpx.Client(base_url=hedgerow.url, timeout=PATIENCE, trust_env=False) as client,
        client.stream("GET", "/big.bin") as answer,
    ):
        pieces = answer.iter_raw()
        next(pieces)
        site.stop()
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
    assert ask(hedgerow).status_code == 502


def test_settings_are_read_again(
    nginx: Callable[..., Nginx], protect: Callable[..., Protect], folder: Path, address: Callable[[], str]
) -> None:
    hedgerow = protect(
        nginx(folder).url, settings='[traps]\nplacement = "end"\n[responses]\ncontact = "a@example.org"\n'
    )
    crawler = address()
    trap = traps_in(ask(hedgerow, who=crawler).content)[0]
    assert ask(hedgerow, trap, who=crawler).status_code == 403
    before = ask(hedgerow)
    assert traps_in(before.content)
    assert hedgerow.plain(marked_links_in(before.content)[0]) == "/other.html"

    hedgerow.config.write_text('[traps]\nenabled = false\n[marker]\nmode = "readable"\n')
    hedgerow.running.process.send_signal(signal.SIGHUP)
    wait_for("reloaded", lambda: "reloaded the settings" in hedgerow.said())
    after = ask(hedgerow)
    assert traps_in(after.content) == []
    assert links_in(after.text)[0].startswith("/other.html?~=")
    assert "<title>Other" in ask(hedgerow, links_in(before.text)[0]).text, "a link given before leads on"
    assert ask(hedgerow, who=crawler).status_code == 403, "who was blocked is blocked still"

    hedgerow.config.write_text("[traps]\nenabled = 7\n")
    hedgerow.running.process.send_signal(signal.SIGHUP)
    wait_for("refused", lambda: "not reloaded" in hedgerow.said())
    assert "hedgerow.toml:2: traps.enabled" in hedgerow.said()
    assert ask(hedgerow).status_code == 200


def test_a_port_in_use_is_one_line(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [HEDGEROW, "protect", "http://127.0.0.1:9", "--listen", listen],
            capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=folder, env=clean_environment(),
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert listen in done.stderr


def test_sigterm_is_a_good_end(nginx: Callable[..., Nginx], protect: Callable[..., Protect], folder: Path) -> None:
    hedgerow = protect(nginx(folder).url)
    hedgerow.stop()
    assert hedgerow.running.process.returncode == 0


def test_sighup_without_a_settings_file_is_no_end(
    nginx: Callable[..., Nginx], protect: Callable[..., Protect], folder: Path
) -> None:
    hedgerow = protect(nginx(folder).url)
    hedgerow.running.process.send_signal(signal.SIGHUP)
    wait_for("heeded", lambda: "reloaded" in hedgerow.said() or not hedgerow.running.alive)
    assert ask(hedgerow).status_code == 200
