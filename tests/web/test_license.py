"""Bots that need a license: 402 with the terms, and where else these are named."""

from __future__ import annotations

import pytest

from driving import Application, Client
from hedgerow.errors import SettingsError
from hedgerow.settings import read_settings
from hedgerow.traps.robots_txt import with_license

URL = "https://a.example/terms/license.xml"
TEXT = f"[bots]\nai_training = 'license'\nlicense = '{URL}'\ndns = false\n"
LINK = f'<{URL}>; rel="license"; type="application/rsl+xml"'.encode()
BOT = {"user-agent": "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)", "accept": "*/*"}
PERSON = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "accept": "text/html"}
PAGE = b"<!DOCTYPE html><html><head><title>t</title></head><body><a href='/b'>b</a></body></html>"


def client(text: str = TEXT) -> Client:
    return Client(Application(PAGE), text)


def test_a_declared_crawler_gets_402_with_the_terms():
    one = client()
    answer = one.get("/a", headers=BOT)
    assert answer.status == 402
    assert answer.header("link") == LINK
    assert (answer.header("www-authenticate") or b"").startswith(b"License ")
    assert URL.encode() in answer.body
    assert [found.code for found in one.entries[-1].decision.evidence if found.weight >= 1] == ["license-needed"]
    assert one.site.app.gate.blocked == 0


def test_robots_and_the_terms_are_free():
    one = client()
    assert one.get("/robots.txt", headers=BOT).status == 200
    assert one.get("/terms/license.xml", headers=BOT).status == 200


def test_people_get_the_page_and_it_names_the_terms():
    answer = client().get("/a", headers=PERSON)
    assert answer.status == 200
    assert answer.header("link") == LINK


def test_robots_txt_names_the_terms_once_and_first():
    body = client().get("/robots.txt", headers=PERSON).body
    assert body.startswith(f"License: {URL}\n".encode())
    assert with_license(with_license(b"", URL), "https://b.example/x") == with_license(b"", URL)
    assert with_license(b"User-agent: *\nLICENSE: https://c.example/\n", URL).startswith(b"User-agent")


def test_nothing_is_named_where_the_site_only_observes_or_names_no_terms():
    observing = client("observe = true\n" + TEXT)
    assert observing.get("/a", headers=BOT).status == 200
    assert observing.get("/a", headers=PERSON).header("link") is None
    assert client("").get("/a", headers=PERSON).header("link") is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[bots]\nseo = 'license'\n", "bots.seo: needs the address of the terms; set license"),
        ("[bots]\nlicense = 'terms.xml'\n", "is not an address such as"),
    ],
)
def test_the_policy_needs_an_address(text, fault):
    with pytest.raises(SettingsError) as raised:
        read_settings(text, environment={})
    assert fault in str(raised.value.faults)
