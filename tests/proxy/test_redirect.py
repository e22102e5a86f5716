"""The listener for plain http sends every request to https."""

from __future__ import annotations

import asyncio

import pytest

from hedgerow.proxy.redirect import Redirect


def ask(
    port: int, *, host: bytes | None = b"site.example", method: str = "GET", path: bytes = b"/a", query: bytes = b""
):
    sent: list[dict] = []

    async def send(message):
        sent.append(message)

    headers = [] if host is None else [(b"host", host)]
    scope = {"type": "http", "method": method, "raw_path": path, "query_string": query, "headers": headers}
    asyncio.run(Redirect(port)(scope, None, send))
    return sent[0]["status"], dict(sent[0]["headers"]).get(b"location")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"query": b"b=%20"}, (301, b"https://site.example/a?b=%20")),
        ({"host": b"site.example:8080"}, (301, b"https://site.example/a")),
        ({"host": b"[::1]:8080"}, (301, b"https://[::1]/a")),
        ({"method": "POST"}, (308, b"https://site.example/a")),
        ({"path": b"*", "method": "OPTIONS"}, (308, b"https://site.example/")),
        ({"host": None}, (400, None)),
        ({"path": b"//evil.example/"}, (301, b"https://site.example//evil.example/")),
    ],
)
def test_a_request_is_sent_to_https(asked, expected) -> None:
    assert ask(443, **asked) == expected


def test_another_port_is_named() -> None:
    assert ask(8443) == (301, b"https://site.example:8443/a")
