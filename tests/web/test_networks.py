"""`[[lists.networks]]` at the middleware, with MaxMind files that are written here and replaced while the site runs."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest
from mmdb_writer import MMDBWriter
from netaddr import IPSet

from driving import Application, Client, settings
from hedgerow.cli.main import main
from hedgerow.web.stores import build_list_follower

BROWSER = {
    "accept": "text/html", "sec-fetch-dest": "document", "sec-fetch-mode": "navigate", "sec-fetch-site": "none",
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
}  # fmt: skip
PAGE = b"<!DOCTYPE html><html><head><title>t</title></head><body>hello</body></html>"
RULES = """
[[lists.networks]]
action = "allow"
asn = [64500]
[[lists.networks]]
action = "block"
country = ["AA"]
reason = "as agreed"
[[lists.networks]]
action = "challenge"
country = ["BB"]
"""


def write_countries(path: Path, blocked: str) -> None:
    writer = MMDBWriter(ip_version=6, ipv4_compatible=True, database_type="GeoLite2-Country")
    writer.insert_network(IPSet([blocked]), {"country": {"iso_code": "AA"}})
    writer.insert_network(IPSet(["198.51.100.0/24"]), {"country_code": "BB"})
    writer.to_db_file(str(path))


@pytest.fixture
def client(tmp_path):
    write_countries(tmp_path / "country.mmdb", "192.0.2.0/24")
    writer = MMDBWriter(ip_version=6, ipv4_compatible=True, database_type="GeoLite2-ASN")
    writer.insert_network(IPSet(["192.0.2.128/25"]), {"autonomous_system_number": 64500})
    writer.to_db_file(str(tmp_path / "asn.mmdb"))
    files = f"asn_file = '{tmp_path}/asn.mmdb'\ncountry_file = '{tmp_path}/country.mmdb'\n"
    text = f"directory = '{tmp_path}'\n[lists]\n{files}{RULES}"
    follower = build_list_follower(settings(text))
    assert follower is not None
    follower.start()
    yield Client(Application(PAGE), text, lists=follower.lists)
    follower.close()


def status(client: Client, address: str) -> int:
    return client.get("/a", peer=address, headers=BROWSER).status


def test_countries_and_operators_are_let_in_refused_and_asked(client):
    assert status(client, "203.0.113.1") == 200
    assert status(client, "192.0.2.1") == 403
    assert client.entries[-1].decision.code == "network-blocked"
    assert status(client, "192.0.2.200") == 200
    assert client.entries[-1].decision.code == "network-allowed"
    assert status(client, "198.51.100.1") == 403
    assert client.entries[-1].decision.action == "challenge"
    assert "network-clearance" in [found.code for found in client.entries[-1].decision.evidence]
    assert status(client, "127.0.0.1") == status(client, "10.1.2.3") == 200
    assert client.site.app.gate.blocked == 0


def test_a_replaced_file_is_used(client, tmp_path):
    assert status(client, "192.0.2.1") == 403
    write_countries(tmp_path / "new.mmdb", "203.0.113.0/24")
    (tmp_path / "new.mmdb").replace(tmp_path / "country.mmdb")
    deadline = time.monotonic() + 30
    while status(client, "192.0.2.1") != 200 and time.monotonic() < deadline:
        asyncio.run(asyncio.sleep(0.1))
    assert status(client, "192.0.2.1") == 200
    assert status(client, "203.0.113.1") == 403


def test_check_names_a_missing_file(monkeypatch, capsys, tmp_path):
    config = tmp_path / "hedgerow.toml"
    config.write_text("[lists]\ncountry_file = '/no/such.mmdb'\n")
    monkeypatch.setattr(sys, "argv", ["hedgerow", "check", str(config)])
    with pytest.raises(SystemExit):
        main()
    assert "lists.country_file: there is no file '/no/such.mmdb' here" in capsys.readouterr().err
