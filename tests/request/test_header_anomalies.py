"""Header anomalies: real browsers have none, and contradictions are found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.detectors.header_anomalies import CODES
from hedgerow.request.header_anomalies import find_anomalies

CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"
)
HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
HINTS = '"Chromium";v="130", "Google Chrome";v="130", "Not?A_Brand";v="99"'
FETCH = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
OVER_HTTPS = {
    "chrome": {
        "host": "example.org", "sec-ch-ua": HINTS, "user-agent": CHROME, "accept": HTML, **FETCH,
        "accept-encoding": "gzip, deflate, br, zstd", "accept-language": "en-GB,en;q=0.9",
    },
    "brave": {
        "host": "example.org", "sec-ch-ua": '"Brave";v="130", "Chromium";v="130", "Not?A_Brand";v="99"',
        "user-agent": CHROME, "accept": HTML, "sec-gpc": "1", "accept-language": "en-US,en;q=0.5", **FETCH,
        "accept-encoding": "gzip, deflate, br, zstd",
    },
    "worker in chrome": {
        "host": "example.org", "sec-ch-ua": HINTS, "accept": "*/*", "sec-fetch-site": "same-origin",
        "sec-fetch-mode": "same-origin", "sec-fetch-dest": "worker", "user-agent": CHROME,
        "accept-encoding": "gzip, deflate, br, zstd", "accept-language": "en-GB,en;q=0.9",
    },
    "firefox": {
        "host": "example.org", "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "accept": HTML, "accept-language": "en-GB,en;q=0.5", "accept-encoding": "gzip, deflate, br, zstd", **FETCH,
    },
    "tor": {
        "host": "example.org", "user-agent": "Mozilla/5.0 (Windows NT 10.0; rv:128.0) Gecko/20100101 Firefox/128.0",
        "accept": HTML, "accept-language": "en-US,en;q=0.5", "accept-encoding": "gzip, deflate, br, zstd",
        "sec-gpc": "1", **FETCH,
    },
    "safari": {
        "host": "example.org", "accept": HTML, **FETCH, "accept-encoding": "gzip, deflate, br", "accept-language": "en",
        "user-agent": "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        "Version/17.4 Safari/605.1.15",
    },
    "old safari": {
        "host": "example.org", "accept": HTML, "accept-encoding": "gzip, deflate", "accept-language": "en",
        "user-agent": "Mozilla/5.0 (iPad; CPU OS 9_3_5 like Mac OS X) AppleWebKit/601.1.46 (KHTML, like Gecko) "
        "Version/9.0 Mobile/13G36 Safari/601.1",
    },
    "internet explorer": {
        "accept": HTML, "accept-language": "en", "accept-encoding": "gzip", "host": "example.org",
        "user-agent": "Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko",
    },
    "old chrome": {
        "host": "example.org", "user-agent": CHROME.replace("130.0.0.0", "49.0.2623.112"), "accept": HTML,
        "accept-encoding": "gzip, deflate, sdch", "accept-language": "en",
    },
    "lynx": {
        "host": "example.org", "accept": "text/html, text/plain, */*;q=0.01", "accept-encoding": "gzip",
        "accept-language": "en", "user-agent": "Lynx/2.9.0dev.12 libwww-FM/2.14 SSL-MM/1.4.1 GNUTLS/3.8.3",
    },
    "w3m": {
        "user-agent": "w3m/0.5.3+git20230121", "accept": "text/html, text/*;q=0.5, image/*", "accept-encoding": "gzip",
        "accept-language": "en;q=1.0", "host": "example.org",
    },
}  # fmt: skip


def anomalies(headers, scheme="https", **more):
    fields = {name.encode(): value.encode() for name, value in headers.items()}
    return find_anomalies(fields, scheme=scheme, host=headers.get("host", "example.org"), **more)


@pytest.mark.parametrize("name", OVER_HTTPS)
def test_browsers_have_no_anomalies(name):
    assert anomalies(OVER_HTTPS[name]) == ()


@pytest.mark.parametrize("name", ["chrome", "firefox"])
def test_browsers_have_no_anomalies_over_plain_http(name):
    bare = {k: v for k, v in OVER_HTTPS[name].items() if not k.startswith("sec-")} | {
        "accept-encoding": "gzip, deflate"
    }
    assert anomalies(bare, scheme="http") == ()
    assert "browser-no-fetch" in anomalies(bare, scheme="https")
    assert "browser-no-fetch" in anomalies({**bare, "host": "127.0.0.1:8080"}, scheme="http")
    assert anomalies(bare, scheme="") == ()


def without(name, *dropped):
    return {k: v for k, v in OVER_HTTPS[name].items() if k not in dropped}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (without("chrome", "sec-fetch-mode"), ("browser-no-fetch",)),
        (without("chrome", "sec-ch-ua"), ("browser-no-hints",)),
        (without("chrome", "accept-language"), ("browser-plain",)),
        (without("chrome", "accept-encoding"), ("browser-no-encoding",)),
        ({**OVER_HTTPS["chrome"], "sec-ch-ua": HINTS.replace("130", "131")}, ("browser-version",)),
        ({**OVER_HTTPS["firefox"], "sec-ch-ua": HINTS}, ("browser-hints",)),
        ({**OVER_HTTPS["chrome"], "accept": "*/*"}, ("browser-accept",)),
        (dict(reversed(OVER_HTTPS["chrome"].items())), ("browser-order",)),
        ({"host": "a", "user-agent": "curl/8.5.0", "accept": "*/*"}, ("program", "no-language")),
        ({"host": "a", "accept": "*/*", "accept-language": "en"}, ("no-agent",)),
        ({"host": "a", "user-agent": "Mozilla/5.0", "accept": "*/*", "accept-language": "en"}, ("odd-agent",)),
        ({"host": "a", "user-agent": "Feeder/1 (+https://x/)"}, ("no-accept", "no-language")),
        (
            {**OVER_HTTPS["chrome"], "user-agent": CHROME.replace("Chrome/", "HeadlessChrome/")},
            ("automation",),
        ),
    ],
)  # fmt: skip
def test_anomalies_are_found(headers, expected):
    assert anomalies(headers) == expected


def test_header_order_and_version_do_not_count_behind_a_proxy():
    mixed = dict(reversed(OVER_HTTPS["chrome"].items()))
    assert anomalies(mixed, version="1.0", direct=False) == ()
    assert anomalies(mixed, version="1.0") == ("browser-http", "browser-order")


def test_a_self_identified_bot_is_not_compared_with_a_browser():
    agent = CHROME + " (compatible; Somebot/1.0; +https://bot.example/)"
    assert anomalies({"host": "a", "user-agent": agent, "accept": "*/*"}) == ("no-language",)


ANY = st.dictionaries(
    st.sampled_from(sorted({name for headers in OVER_HTTPS.values() for name in headers})).map(str.encode),
    st.one_of(
        st.binary(max_size=60),
        st.sampled_from([value.encode() for headers in OVER_HTTPS.values() for value in headers.values()]),
        st.just(b"x" * 3000),
    ),
)


@given(ANY, st.sampled_from(["", "http", "https"]), st.sampled_from(["1.0", "1.1", "2"]), st.booleans())
def test_any_headers_can_be_read_and_give_declared_signs(fields, scheme, version, direct):
    found = find_anomalies(fields, scheme=scheme, host="example.org", version=version, direct=direct)
    assert found == find_anomalies(dict(fields), scheme=scheme, host="example.org", version=version, direct=direct)
    assert set(found) <= set(CODES)
