"""
Countries, subscriptions and licenses with `hedgerow protect`, behind a trusted proxy that names addresses.

The MaxMind file and the list are written here; the list comes from a server on 127.0.0.1.
"""

from __future__ import annotations

import functools
import http.client
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mmdb_writer import MMDBWriter
from netaddr import IPSet

from .servers import HEDGEROW, Nginx, Protect, clean_environment, wait_for

BROWSER = {
    "accept": "text/html", "accept-language": "en", "sec-fetch-dest": "document", "sec-fetch-mode": "navigate",
    "sec-fetch-site": "none", "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
}  # fmt: skip
GPTBOT = {"user-agent": "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)", "accept": "*/*"}
JA4 = "t13d1716h2_5b57614c22b0_3d5424432f57"
SETTINGS = """
[identity]
trusted_proxies = ["127.0.0.1/32"]
tls_header = "x-ja4"

[bots]
ai_training = "license"
license = "https://docs.example/license.xml"
dns = false

[lists]
country_file = "{folder}/country.mmdb"

[[lists.networks]]
action = "block"
country = ["AA"]

[[lists.networks]]
action = "challenge"
country = ["BB"]

[[lists.subscriptions]]
name = "drop"
url = "{url}/list.txt"
every = 60
"""


@pytest.fixture(scope="module")
def site(nginx: Callable[..., Nginx], documentation: Path) -> Nginx:
    return nginx(documentation)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def published(tmp_path: Path) -> Iterator[str]:
    """The address of a server with the folder *tmp_path*."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def ask(hedgerow: Protect, who: str, headers: dict[str, str], path: str = "/sql-select.html") -> tuple[int, str, str]:
    """Return status, body and Link header, as a proxy on this machine asks for the address *who*."""
    connection = http.client.HTTPConnection("127.0.0.1", hedgerow.port, timeout=60)
    connection.request("GET", path, headers={**headers, "x-forwarded-for": who, "x-ja4": JA4})
    answer = connection.getresponse()
    body = answer.read().decode("utf-8", "replace")
    connection.close()
    return answer.status, body, answer.getheader("link") or ""


@pytest.mark.parametrize("options", [[], ["--workers", "2"]], ids=["one process", "workers"])
def test_countries_subscriptions_and_licenses(
    site: Nginx, protect: Callable[..., Protect], published: str, options: list[str], tmp_path: Path
) -> None:
    writer = MMDBWriter(ip_version=6, ipv4_compatible=True, database_type="GeoLite2-Country")
    writer.insert_network(IPSet(["192.0.2.0/25"]), {"country": {"iso_code": "AA"}})
    writer.insert_network(IPSet(["192.0.2.128/25"]), {"country": {"iso_code": "BB"}})
    writer.to_db_file(str(tmp_path / "country.mmdb"))
    (tmp_path / "list.txt").write_text("198.51.100.0/24\n127.0.0.1\n")
    hedgerow = protect(site.url, settings=SETTINGS.format(folder=tmp_path, url=published), options=options)

    assert ask(hedgerow, "203.0.113.1", BROWSER)[0] == 200
    status, body, _ = ask(hedgerow, "192.0.2.1", BROWSER)
    assert status == 403
    assert "the country AA" in body
    status, body, _ = ask(hedgerow, "192.0.2.200", BROWSER)
    assert status == 403
    assert "network-clearance" in body

    status, body, link = ask(hedgerow, "203.0.113.2", GPTBOT)
    assert (status, link) == (402, '<https://docs.example/license.xml>; rel="license"; type="application/rsl+xml"')
    assert ask(hedgerow, "203.0.113.2", GPTBOT, "/robots.txt")[1].startswith("License: https://docs.example/")
    assert 'rel="license"' in ask(hedgerow, "203.0.113.3", BROWSER)[2]

    wait_for("the subscription", lambda: ask(hedgerow, "198.51.100.7", BROWSER)[0] == 403)
    assert ask(hedgerow, "127.0.0.1", BROWSER)[0] == 200
    done = subprocess.run(
        [str(HEDGEROW), "lists", "subscriptions", "--config", str(hedgerow.config)],
        capture_output=True, text=True, timeout=60, check=True,
        env=clean_environment(HEDGEROW__DIRECTORY=str(hedgerow.folder / "state"), COLUMNS="200"),
    )  # fmt: skip
    assert "drop" in done.stdout
    assert hedgerow.metric('hedgerow_store_errors_total{store="subscriptions"}') == 0
