"""JA4 fingerprints: learned from clearances on the site, small evidence, and nobody behind a proxy is harmed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving import Application, Client
from hedgerow.core.state import StateReply
from hedgerow.core.visit import ELSEWHERE, Visit
from hedgerow.detectors.tls_fingerprint import TlsFingerprintDetector, family_of

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 CriOS/138.0 Safari/604.1"
OF_FIREFOX, OF_CHROME = "t13d1716h2_5b57614c22b0_3d5424432f57", "t13d1516h2_8daaf6152771_d8a2da3f94cd"
OF_GO, OF_PROXY = "t13d1311h2_f57a46bbacb6_ab7e3b40a677", "t12d2008h1_aaaaaaaaaaaa_bbbbbbbbbbbb"
NOTHING = StateReply(None, ())


def visit(fingerprint: str, agent: str = FIREFOX, number: int = 1, **changes: object) -> Visit:
    address = f"192.0.{number // 250}.{number % 250 + 1}"
    made = Visit(1000.0, address, address, address, "GET", "/a", user_agent=agent, fingerprint=fingerprint)
    return msgspec.structs.replace(made, **changes)


def learned(count: int = 60, agent: str = FIREFOX, fingerprint: str = OF_FIREFOX) -> TlsFingerprintDetector:
    detector = TlsFingerprintDetector()
    for number in range(count):
        detector.on_clearance(visit(fingerprint, agent, number))
    return detector


def codes(detector: TlsFingerprintDetector, one: Visit) -> list[str]:
    return [found.code for found in detector(one, NOTHING)]


def test_a_browser_with_another_handshake_gets_small_evidence():
    detector = learned()
    assert codes(detector, visit(OF_FIREFOX, number=900)) == []
    (found,) = detector(visit(OF_GO, number=900), NOTHING)
    assert (found.code, found.weight) == ("tls-unknown", 0.15)


def test_the_handshake_of_a_program_that_says_its_name_weighs_more():
    detector = learned()
    assert codes(detector, visit(OF_GO, "Go-http-client/2.0")) == []
    (found,) = detector(visit(OF_GO, number=900), NOTHING)
    assert (found.code, found.weight) == ("tls-program", 0.3)


def test_nobody_is_judged_before_enough_people_were_seen():
    assert codes(learned(49), visit(OF_GO)) == []
    same = TlsFingerprintDetector()
    for _ in range(200):
        same.on_clearance(visit(OF_FIREFOX))
    assert codes(same, visit(OF_GO, number=900)) == [], "one address must not teach the site alone"
    assert codes(learned(), visit(OF_GO, CHROME)) == [], "nothing is known of another browser"


def test_nobody_is_judged_while_many_come_with_new_handshakes():
    detector = TlsFingerprintDetector()
    for number in range(200):
        detector.on_clearance(visit(f"t13d1716h2_{number:012x}_3d5424432f57", number=number))
    assert codes(detector, visit(OF_GO, number=900)) == []


def test_people_behind_a_proxy_that_opens_connections_are_not_harmed():
    """The first of them gets a little evidence, and obtains a clearance as everybody. The others get none."""
    detector = learned()
    for number in range(60):
        detector.on_clearance(visit(OF_CHROME, CHROME, number))
    first = visit(OF_PROXY, number=900)
    assert sum(found.weight for found in detector(first, NOTHING)) < 0.5
    detector.on_clearance(first)
    assert codes(detector, visit(OF_PROXY, number=901)) == []
    assert codes(detector, visit(OF_PROXY, CHROME, number=902)) == [], "whatever their browser"


@pytest.mark.parametrize(
    "changes",
    [
        {"visitor": "clearance:x"}, {"kind": "asset"}, {"fingerprint": ""}, {"anomalies": (ELSEWHERE,)},
        {"fingerprint": "e7d705a3286e19ea42f587b344ee6865"}, {"user_agent": "Examplebot/1.0"},
    ],
)  # fmt: skip
def test_nothing_else_is_judged(changes):
    """Among these a JA3 fingerprint, which changes with every connection of a browser."""
    assert codes(learned(), msgspec.structs.replace(visit(OF_GO, number=900), **changes)) == []


def test_families_of_browsers():
    assert [family_of(text) for text in (FIREFOX, CHROME, PHONE, "curl/8", "")] == [
        "Firefox",
        "Chromium",
        "Safari",
        "",
        "",
    ]


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=60), st.integers(0, 300)), max_size=60))
def test_what_strangers_send_never_raises_and_never_weighs_much(visits):
    detector = TlsFingerprintDetector()
    for fingerprint, agent, number in visits:
        detector.on_clearance(visit(fingerprint, agent, number))
        assert sum(found.weight for found in detector(visit(fingerprint, agent, number), NOTHING)) <= 0.3


def test_the_header_of_a_trusted_proxy_reaches_the_detector():
    """Evidence appears in the decision, and the page is still served."""
    page = b"<!DOCTYPE html><html><head><title>t</title></head><body>hello</body></html>"
    text = "[identity]\ntrusted_proxies = ['10.0.0.0/8']\ntls_header = 'x-ja4'\n"
    client = Client(Application(page), text)
    gate = client.site.app.gate
    for number in range(60):
        gate.engine.note_clearance(visit(OF_FIREFOX, number=number))

    def ask(fingerprint: str, address: str) -> tuple[int, list[str]]:
        headers = {
            "accept": "text/html", "user-agent": FIREFOX, "x-ja4": fingerprint, "x-forwarded-for": address,
            "sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "none",
        }  # fmt: skip
        status = client.get("/a", peer="10.0.0.1", headers=headers).status
        return status, [one.code for one in client.entries[-1].decision.evidence if one.detector == "fingerprint"]

    assert ask(OF_FIREFOX, "203.0.113.1") == (200, [])
    assert ask(OF_GO, "203.0.113.2") == (200, ["tls-unknown"])
