"""What refused visitors see: the right status, the right form, whole headers, and a page that a person can use."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256

import html5lib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.decision import Decision, Evidence
from hedgerow.web import response_pages as pages
from hedgerow.web.response_pages import PageRequest, ResponsePage, form_for, in_words

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
AT = 1_763_200_000.5
DENSITY = Evidence("density", "density-visitor", 1.0, "More than 100 requests in 3 seconds.")
TRAP = Evidence("trap", "trap", 1.0, "Followed a link of the page /<a>?b=1&c=2 that no person can see.")
FAILURES = [("connect", 502), ("timeout", 504), ("busy", 503), ("broken", 502)]
FORMS = [("html", BROWSER), ("json", "application/json"), ("text", "*/*")]


def refuse(*evidence: Evidence, until: float = AT + 3600, action="refuse", **how) -> ResponsePage:
    site = how.pop("site", "")
    request = PageRequest(**{"reference": "7F3A-91C2", "accept": BROWSER, **how})
    return pages.refusal(Decision(action, evidence or (DENSITY,), until), request, at=AT, site=site)


def headers_of(answer: ResponsePage) -> dict[str, str]:
    found = {name.decode(): value.decode("latin-1") for name, value in answer.headers}
    assert len(found) == len(answer.headers), "a header is there twice"
    assert all(name == name.lower() for name in found)
    return found


def parsed(answer: ResponsePage):
    """The page as a tree; any fault of the HTML is an error."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(answer.body.decode())


def words(answer: ResponsePage) -> str:
    return " ".join("".join(parsed(answer).itertext()).split())


class TestRefusal:
    def test_too_many_requests_are_429_and_a_trap_is_403(self):
        assert refuse(DENSITY).status == 429
        assert refuse(TRAP).status == 403
        assert refuse(TRAP, action="detain").status == 403
        assert refuse(TRAP, action="challenge").status == 429

    def test_a_declined_prefetch_and_an_unreachable_store_are_503(self):
        assert refuse(Evidence("prefetch", "prefetch", 1.0, "Too many.")).status == 503
        assert refuse(Evidence("store", "store-away", 1.0, "Cannot tell.")).status == 503

    def test_the_weightiest_evidence_decides(self):
        light = Evidence("trap", "trap-prefetched", 0.0, "A browser prefetched a hidden link.")
        answer = refuse(light, DENSITY)
        assert answer.status == 429
        assert headers_of(answer)["hedgerow-decision"] == "refuse; code=density-visitor; ref=7F3A-91C2"

    @pytest.mark.parametrize(("form", "accept"), FORMS)
    def test_headers_are_whole_in_every_form(self, form, accept):
        answer = refuse(accept=accept)
        headers = headers_of(answer)
        assert headers["cache-control"] == "no-store"
        assert headers["vary"] == "Accept"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-length"] == str(len(answer.body))
        assert headers["retry-after"] == "3600"
        assert ("content-security-policy" in headers) == (form == "html")

    @pytest.mark.parametrize(
        ("left", "seconds"), [(-5.0, 1), (0.0, 1), (0.2, 1), (59.1, 60), (3600.0, 3600), (float("inf"), 31_622_400)]
    )
    def test_the_wait_is_whole_and_at_least_a_second(self, left, seconds):
        assert headers_of(refuse(until=AT + left))["retry-after"] == str(seconds)

    def test_without_evidence_there_is_still_a_reason(self):
        answer = pages.refusal(Decision("refuse"), PageRequest(BROWSER, reference="r"), at=AT)
        assert answer.status == 403
        assert "looked automatic" in words(answer)

    @pytest.mark.parametrize(("form", "accept"), FORMS)
    def test_a_head_is_told_the_length_of_the_get(self, form, accept):
        get, head = refuse(accept=accept), refuse(accept=accept, method="HEAD")
        assert head.body == b""
        assert (head.status, head.headers) == (get.status, get.headers), form

    def test_json_has_the_agreed_fields(self):
        answer = refuse(accept="application/json", contact="admin@example.org")
        assert headers_of(answer)["content-type"] == "application/json"
        assert json.loads(answer.body) == {
            "decision": "refuse",
            "code": "density-visitor",
            "reason": "More than 100 requests in 3 seconds.",
            "reference": "7F3A-91C2",
            "retry_after": 3600,
            "contact": "admin@example.org",
        }
        assert json.loads(refuse(accept="application/json").body)["contact"] is None

    def test_plain_text_says_the_same(self):
        text = refuse(TRAP, accept="*/*", contact="the help desk").body.decode()
        for piece in (TRAP.text, "in about 60 minutes", "the help desk", "7F3A-91C2", "Nothing was lost"):
            assert piece in text

    @given(st.text(), st.text(), st.text(), st.text(), st.sampled_from([a for _, a in FORMS]))
    def test_nothing_from_outside_breaks_header_or_page(self, code, text, reference, contact, accept):
        evidence = Evidence("trap", code, 1.0, text)
        answer = refuse(evidence, reference=reference, contact=contact, site=text, accept=accept)
        for name, value in answer.headers:
            assert re.fullmatch(rb"[a-z-]+", name)
            assert re.fullmatch(rb"[\x20-\x7e]*", value)
        decision = headers_of(answer)["hedgerow-decision"]
        assert re.fullmatch(r"refuse; code=[\w.:-]*; ref=[\w.:-]*", decision, re.ASCII)
        if accept == BROWSER:
            tree = html5lib.HTMLParser(namespaceHTMLElements=False).parse(answer.body.decode())
            assert not list(tree.iter("script"))
            assert len(list(tree.iter("h1"))) == 1


class TestPage:
    def test_is_small_valid_and_built_for_every_reader(self):
        answer = refuse(TRAP, site="docs.example.org", contact="https://example.org/help")
        assert len(answer.body) < 4096
        tree = parsed(answer)
        assert tree.get("lang") == "en"
        assert tree.findtext("head/title") == "This request was not let through - docs.example.org"
        assert [len(list(tree.iter(name))) for name in ("h1", "main", "header", "footer")] == [1, 1, 1, 1]
        assert not list(tree.iter("script"))
        assert "initial-scale=1" in answer.body.decode()
        assert "maximum-scale" not in answer.body.decode()

    def test_says_what_happened_when_it_ends_and_whom_to_ask(self):
        answer = refuse(TRAP)
        text = words(answer)
        assert TRAP.text in text
        assert "in about 60 minutes, at 10:46 UTC on 15 November 2025" in text
        assert "Please ask the administrator of this site" in text
        assert "Reference7F3A-91C2" in text
        assert "Nothing was lost" in text
        (time,) = parsed(answer).iter("time")
        assert time.get("datetime") == "2025-11-15T10:46:40+00:00"

    @pytest.mark.parametrize(
        ("contact", "href"),
        [
            ("admin@example.org", "mailto:admin@example.org?subject=Reference%207F3A-91C2"),
            ("a%b+c@example.org", "mailto:a%25b+c@example.org?subject=Reference%207F3A-91C2"),
            ("https://example.org/help?a=1&b=100%25", "https://example.org/help?a=1&b=100%25"),
            ("javascript:alert(1)", None),
            ('https://example.org/"onclick="x', None),
            ("Room 100% <3>, desk @ the left", None),
        ],
    )
    def test_the_contact_becomes_a_link_where_it_is_one(self, contact, href):
        tree = parsed(refuse(contact=contact))
        links = [link.get("href") for link in tree.iter("a")]
        assert links == ([href] if href else [])
        assert contact in "".join(tree.itertext())

    def test_the_policy_allows_the_page_its_own_style_and_nothing_else(self):
        answer = refuse()
        policy = headers_of(answer)["content-security-policy"]
        style = parsed(answer).findtext("head/style")
        assert f"style-src 'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in policy
        assert policy.startswith("default-src 'none';")
        # A browser that asked for a favicon would begin its wait anew.
        assert b'<link rel="icon" href="data:,">' in answer.body

    @pytest.mark.parametrize("scheme", [0, 1])
    def test_contrast_is_enough_by_day_and_by_night(self, scheme):
        style = parsed(refuse()).findtext("head/style")
        colours = dict(re.findall(r"--(\w+):(#\w+)", style.split("@media")[scheme].split("*{")[0]))
        for ink in ("ink", "soft", "link"):
            assert contrast(colours[ink], colours["card"]) >= 4.5
        assert contrast(colours["link"], colours["paper"]) >= 3


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG 2 reckons it."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


class TestOthers:
    @pytest.mark.parametrize(("failure", "status"), FAILURES)
    @pytest.mark.parametrize(("form", "accept"), FORMS)
    def test_the_site_is_down(self, failure, status, form, accept):
        answer = pages.unavailable(failure, PageRequest(accept, reference="7F3A-91C2", contact="admin@example.org"))
        headers = headers_of(answer)
        assert answer.status == status
        assert headers.get("retry-after") == ("5" if failure == "busy" else None)
        assert headers["cache-control"] == "no-store"
        assert b"7F3A-91C2" in answer.body
        if form == "html":
            assert "admin@example.org" in words(answer)
        elif form == "json":
            assert json.loads(answer.body)["code"] == f"upstream-{failure}"

    @pytest.mark.parametrize(("form", "accept"), FORMS)
    def test_not_found_says_nothing_about_us(self, form, accept):
        answer = pages.not_found(PageRequest(accept))
        assert answer.status == 404
        assert "hedgerow" not in (str(answer.headers) + answer.body.decode()).lower()
        if form == "html":
            assert "Page not found" in words(answer)

    def test_a_redirect_never_leaves_the_site(self):
        assert headers_of(pages.redirect(301, "/a?b"))["location"] == "/a?b"
        assert headers_of(pages.redirect(301, "//example.com/"))["location"] == "/.//example.com/"


class TestForm:
    @pytest.mark.parametrize(
        ("accept", "kind", "form"),
        [
            (BROWSER, "page", "html"),
            (BROWSER, "call", "text"),
            (BROWSER, "asset", "text"),
            ("", "page", "text"),
            ("*/*", "page", "text"),
            ("text/*", "page", "text"),
            ("text/html;q=0", "page", "text"),
            ("text/html;q=0, */*", "page", "text"),
            ("TEXT/HTML ; Q=0.5", "page", "html"),
            ("text/html;level=1;q=0.5, application/json", "page", "json"),
            ("application/json, text/plain, */*", "call", "json"),
            ("application/json", "page", "json"),
            ("application/json;q=0.1, text/plain", "call", "text"),
            ("application/json;q=0, */*", "call", "text"),
            ("application/vnd.api+json", "call", "json"),
            ("application/*", "call", "json"),
            ("text/html, application/json", "page", "html"),
            ("text/html, application/json", "call", "json"),
            ("application/rss+xml", "page", "text"),
            ("text/html;q=nan", "page", "text"),
            ("text/html;q=1e9, text/plain;q=0.1", "page", "text"),
            (",;=,/,text/html", "page", "html"),
            ("a/b," * 10_000 + "text/html", "page", "text"),
        ],
    )
    def test_goes_by_what_the_client_prefers(self, accept, kind, form):
        assert form_for(accept, kind) == form

    @given(st.text(), st.sampled_from(["page", "call", "asset"]))
    def test_any_header_has_a_form(self, accept, kind):
        form = form_for(accept, kind)
        assert form in {"html", "json", "text"}
        assert form != "html" or kind == "page"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (1, "in less than a minute"),
        (60, "in about 1 minute"),
        (3600, "in about 60 minutes"),
        (5399, "in about 90 minutes"),
        (5400, "in about 2 hours"),
        (86_400, "in about 24 hours"),
        (86_400 * 7, "in about 7 days"),
    ],
)
def test_waits_are_said_in_words(seconds, said):
    assert in_words(seconds) == said
