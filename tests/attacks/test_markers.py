"""Marked links: stripped, swapped, harvested, changed and spelled otherwise, and paths that must not open."""

from __future__ import annotations

import re

import pytest

from driving import Application, Client, marked_links_in, traps_in
from hedgerow.markers.rules import NeverOpaque
from hedgerow.markers.token import page_digest, visitor_digest

from .browsers import EVIL, HOST, ME, OTHER, Browser, site, word

MODES = ["clean", "opaque", "readable"]
SPELLINGS = [
    "/admin/users", "/admin", "/admin/", "//admin/users", "/./admin/users", "/x/../admin/users", "/%61dmin/users",
    "/ADMIN/users", "/x/%2e%2e/admin/users", "/x/..%2fadmin/users", "/%2561dmin/users", "/admin;x=1/users",
    "/x;/../admin/users", "/x\\..\\admin\\users", "/admin%2fusers", "/admin?x=1", "/a/b/../../admin/x",
]  # fmt: skip


def seal(client: Client, target: str, visitor: str = ME) -> str:
    codec = client.site.app.tokens.of("example.org")
    return "/~" + codec.seal("page", visitor_digest(visitor), page_digest("/"), target.encode()).decode()


@pytest.mark.parametrize("target", SPELLINGS)
def test_an_opaque_link_does_not_pass_the_rules_of_a_server_in_front(target):
    """Our own: nginx denied /admin, and the opaque link to it was answered with 200. CVE-2025-29914, CVE-2024-1019."""
    client = site("[marker]\nmode = 'opaque'\nnever_opaque = ['/admin*', '/admin/*']\n")
    answer = Browser(client).send(seal(client, target))
    assert answer.status == 404
    assert client.app.scopes == []
    assert Browser(client).send(seal(client, "/open")).status == 200


def test_links_to_such_paths_are_not_opaque():
    """Our own: the server in front sees the path, and decides."""
    page = b"<!DOCTYPE html><html><head></head><body><a href='/admin/users'>a</a><a href='/open'>b</a></body></html>"
    client = Client(Application(page), "[marker]\nmode = 'opaque'\nnever_opaque = ['/admin/*']\n")
    links = marked_links_in(Browser(client).send("/").body)
    assert [link.partition("?")[0] == "/admin/users" or link.startswith("/~") for link in links] == [True, True]
    assert any(link.startswith("/admin/users?~=") for link in links)


@pytest.mark.parametrize("target", ["/open", "/administrator-guide/x", "/x/admin"])
def test_other_paths_stay_opaque(target):
    """The other side: a rule for /admin/* is none for what only looks like it."""
    assert not NeverOpaque(["/admin/*"]).match(target)


@pytest.mark.parametrize(
    "target", ["//evil.example/", "/\\evil.example", "https://evil.example/", "javascript:alert(1)", "", "x"]
)
def test_a_decrypted_path_never_leads_to_another_site(target):
    """Our own: a path that comes out of a token is no redirect, and no address of another host."""
    client = site("[marker]\nmode = 'opaque'\n")
    answer = Browser(client).send(seal(client, target))
    location = answer.header("location") or b"/"
    assert location.startswith(b"/")
    assert not location.startswith((b"//", b"/\\"))
    for scope in client.app.scopes:
        assert scope["raw_path"].startswith(b"/")


def test_a_path_is_decoded_once():
    """Our own: what is escaped twice reaches the site escaped once less by nobody."""
    client = site("[marker]\nmode = 'opaque'\n")
    Browser(client).send(seal(client, "/a%252e%252e/b%2fc"))
    assert client.app.scopes[-1]["raw_path"] == b"/a%252e%252e/b%2fc"


@pytest.mark.parametrize("mode", MODES)
def test_marks_do_not_leak_to_other_sites(mode):
    """Our own: the address of a page, with its mark, would be the referrer of what the page links to."""
    client = site(f"[marker]\nmode = '{mode}'\n")
    answer = Browser(client).send("/")
    policy = answer.header("referrer-policy")
    assert policy in {b"strict-origin-when-cross-origin", b"same-origin", b"no-referrer", b"strict-origin", b"origin"}


@pytest.mark.parametrize("mode", MODES)
def test_marks_do_not_reach_the_site(mode):
    """Our own: neither in the address nor as the referrer. No log and no cache has one page under many names."""
    client = site(f"[marker]\nmode = '{mode}'\n")
    reader = Browser(client)
    link = marked_links_in(reader.send("/").body)[0]
    reader.send(link, headers={"sec-fetch-site": "same-origin", "referer": HOST + link})
    scope = client.app.scopes[-1]
    assert b"~" not in scope["raw_path"] + scope["query_string"]
    assert b"~" not in client.app.seen("referer")


@pytest.mark.parametrize("mode", MODES)
def test_a_page_with_marks_is_in_no_shared_cache(mode):
    """anubis#560, #1474 (cached challenges): marks and hidden links are issued to one visitor."""
    app = Application(headers=[(b"content-type", b"text/html"), (b"cache-control", b"public, max-age=600")])
    client = Client(app, f"[marker]\nmode = '{mode}'\n")
    assert b"private" in Browser(client).send("/").header("cache-control")


@pytest.mark.parametrize("mode", MODES)
def test_a_mark_of_another_link_opens_no_closed_page(mode):
    """Our own: marks are swapped."""
    client = site(f"[marker]\nmode = '{mode}'\nstrict = true\n")
    reader = Browser(client)
    link = marked_links_in(reader.send("/").body)[0]
    mark = link.partition("?")[2] or "~=" + link.removeprefix("/~")
    assert reader.send("/other?" + mark).status == 403


@pytest.mark.parametrize("mode", MODES)
def test_two_pages_have_no_mark_in_common(mode):
    """Our own: the same nonce twice would tell a crawler which links lead to the same page, and which are hidden."""
    client = site(f"[marker]\nmode = '{mode}'\n")
    found: list[str] = []
    for number in range(3):
        body = Browser(client, f"192.0.2.{number + 1}").send(word(number)).body
        found += [re.split(r"~=|/~", link)[-1] for link in (*marked_links_in(body), *traps_in(body))]
    assert len(found) == len(set(found)) > 30


def test_a_wrong_mark_is_answered_alike_however_it_is_wrong():
    """Our own: no oracle. A changed token, one of another host, of another key and random bytes look the same."""
    client = site("[marker]\nmode = 'opaque'\n")
    reader = Browser(client)
    good = marked_links_in(reader.send("/").body)[0]
    elsewhere = client.site.app.tokens.of("other.example").seal("page", visitor_digest(ME), page_digest("/"), b"/one")
    wrong = [
        good[:-1] + ("A" if good[-1] != "A" else "B"),
        "/~" + elsewhere.decode(),
        "/~" + "A" * 60,
        good[:30] + "A" * 30,
    ]
    answers = [reader.send(target) for target in wrong]
    assert {(answer.status, answer.body, tuple(answer.headers)) for answer in answers} == {
        (404, answers[0].body, tuple(answers[0].headers))
    }


def test_harvested_links_of_others_are_evidence_on_this_site_and_nowhere_else():
    """Our own: a crawler uses links that others were issued; a reader who was sent one does nothing wrong."""
    client = site()
    links = marked_links_in(Browser(client, OTHER).send("/").body)
    crawler, reader = Browser(client, "192.0.2.50", scripts=False), Browser(client, "192.0.2.60")
    crawler.send(links[0], headers={"sec-fetch-site": "same-origin", "referer": HOST + "/"})
    assert client.entries[-1].decision.evidence[0].weight > 0
    for headers in ({"sec-fetch-site": "none"}, {"sec-fetch-site": "cross-site", "referer": EVIL}):
        reader.send(links[1], headers=headers)
        assert sum(one.weight for one in client.entries[-1].decision.evidence) == 0


def test_a_stripped_mark_is_an_entry():
    """Our own: who strips all marks comes to every page without one."""
    client = site()
    crawler = Browser(client, scripts=False)
    crawler.send("/")
    crawler.send("/one", headers={"sec-fetch-site": "same-origin", "referer": HOST + "/"})
    assert [one.code for one in client.entries[-1].decision.evidence] == ["unmarked"]
