"""Forwarded headers, addresses and claims: a client says that it is somebody else."""

from __future__ import annotations

import pytest

from driving import Client
from hedgerow.request.bots import in_domain
from services.test_forward_auth import Front

from .browsers import CHROME, ME, Browser, site

PROXY = "10.0.0.1"
TRUSTED = f"[identity]\ntrusted_proxies = ['{PROXY}/32', '10.0.1.0/24']\n"


def seen(client: Client, peer: str, **headers: str) -> str:
    client.get("/", peer=peer, headers={**CHROME, **{name.replace("_", "-"): value for name, value in headers.items()}})
    return client.entries[-1].visit.address


@pytest.mark.parametrize(
    "headers",
    [
        {"x_forwarded_for": "203.0.113.9"},
        {"x_real_ip": "203.0.113.9"},
        {"forwarded": "for=203.0.113.9"},
        {"true_client_ip": "203.0.113.9"},
        {"cf_connecting_ip": "203.0.113.9"},
        {"x_client_ip": "203.0.113.9"},
        {"x_cluster_client_ip": "203.0.113.9"},
    ],
)
@pytest.mark.parametrize("text", ["", TRUSTED])
def test_a_client_does_not_choose_its_address(headers, text):
    """CVE-2025-46814, anubis#1890: the address is taken from a header that anybody can send."""
    assert seen(site(text), ME, **headers) == ME


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("203.0.113.9, 198.51.100.4", "198.51.100.4"),
        ("203.0.113.9, 198.51.100.4, 10.0.1.5", "198.51.100.4"),
        ("10.0.1.9, 198.51.100.4", "198.51.100.4"),
        ("127.0.0.1, 198.51.100.4", "198.51.100.4"),
        ("203.0.113.9, nonsense", PROXY),
        ("203.0.113.9,", PROXY),
        ("203.0.113.9 198.51.100.4", PROXY),
        ("", PROXY),
    ],
)
def test_behind_a_proxy_the_last_hop_counts(value, address):
    """CVE-2025-46814: what a client wrote stands on the left, and is not read."""
    assert seen(site(TRUSTED), PROXY, x_forwarded_for=value) == address


@pytest.mark.parametrize(
    "name", ["x-original-uri", "x-original-url", "x-forwarded-uri", "x-rewrite-url", "x-original-method"]
)
def test_an_original_address_counts_only_in_forward_auth(name):
    """GHSA-6wcg-mqvh-fcvg: the header named an open page, and the request was for another."""
    client = site("[marker]\nstrict = true\n")
    client.get("/closed", peer=ME, headers={**CHROME, name: "/"})
    assert client.entries[-1].visit.target == "/closed"
    assert client.entries[-1].decision.code == "closed"


def test_a_refusal_in_forward_auth_is_never_200():
    """Anubis `subrequest-auth.mdx`: nginx lets in whoever is answered with 200, whatever the page says."""
    front = Front("[density]\nwindows = [{ count = 1, seconds = 10.0 }]\n[policy]\nsuspects = 'refuse'\n")
    statuses = [front.asks(f"/{number}", headers=CHROME).status for number in range(5)]
    assert statuses[0] == 200
    assert 200 not in statuses[1:]


@pytest.mark.parametrize(
    "name",
    ["googlebot.com.evil.example", "evilgooglebot.com", "googlebot.com-evil.example", "xgooglebot.com", "com", ""],
)
def test_a_host_name_that_only_looks_like_a_bots(name):
    """GHSA-q54j-5484-pvjm, `botfile.go`: a pattern without anchors, and a PTR record that its owner chose."""
    assert not in_domain(name, ["googlebot.com"])


@pytest.mark.parametrize("agent", ["Googlebot/2.1", "Mozilla/5.0 (compatible; bingbot/2.0)", "ChatGPT-User/1.0"])
def test_a_popular_name_gets_nothing(agent):
    """anubis#1580: a trap, or a pass, for everybody with a certain user agent."""
    client = site("[bots]\ndns = false\n")
    Browser(client, headers={**CHROME, "user-agent": agent}).send("/")
    assert client.entries[-1].visit.bot == ""


@pytest.mark.parametrize("target", ["/unknown/route", "/%00", "/a%0d%0ab", "/%ff", "/" + "a" * 3000, "/..", "*"])
def test_an_address_without_a_route_is_judged_as_well(target):
    """GHSA-f2vm-w8gq-h378: a path that no route matched had no policy."""
    client = site("[marker]\nstrict = true\n")
    answer = Browser(client).send(target)
    assert answer.status in {403, 404}
    assert len(client.entries) == 1


@pytest.mark.parametrize("field", ["user-agent", "referer", "accept-language"])
def test_what_a_client_says_breaks_no_header_and_no_page(field):
    """BunkerWeb (CWE-1236, terminal escapes): log, header and page injection by a header."""
    client = site("[marker]\nstrict = true\n")
    evil = "=cmd|' /C calc'!A0\x1b[2J<script>alert(1)</script>"
    answer = Browser(client, headers={**CHROME, field: evil}).send("/closed?<script>")
    assert answer.status == 403
    assert b"<script>alert" not in answer.body
    assert all(b"\r" not in value and b"\n" not in value for _, value in answer.headers)
