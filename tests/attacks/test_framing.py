"""Framing: another site, or another visitor, tries to get a reader challenged or blocked. Afterwards it reads on."""

from __future__ import annotations

import pytest

from driving import Application, Client, marked_links_in, traps_in
from driving_wsgi import WsgiApplication, WsgiClient
from hedgerow.core.decision import Block, Evidence
from hedgerow.watch.watch import Watch

from .browsers import EMBEDDED, EVIL, FAST, ME, OTHER, OVER_HTTP, Browser, page_at, site, word

HOWS = sorted(EMBEDDED)
IN_PAGES = sorted(set(EMBEDDED) - {"popup"})
"""Without windows: what another site opens there cannot be told from a link over plain HTTP."""


@pytest.fixture(params=["before the first page", "with a clearance"])
def victim(request: pytest.FixtureRequest) -> Browser:
    """A reader who has not been here before, or who has."""
    reader = Browser(site())
    if request.param == "with a clearance":
        reader.read("/")
        reader.read("/one")
    return reader


@pytest.mark.parametrize("how", HOWS)
def test_sixty_pages_at_once(victim, how):
    """Our own: sixty images of pages made the reader of another site exceed a rate limit."""
    statuses = [victim.embedded(word(number), how).status for number in range(60)]
    assert statuses.count(200) <= 40, "a crawler that says so gets no more"
    assert set(statuses) <= {200, 403 if how == "popup" else 429, 429}
    assert victim.is_undisturbed()


@pytest.mark.parametrize("how", HOWS)
def test_the_pages_of_a_day(victim, how):
    """Our own: as many pages as an address may have in a day, slowly."""
    for number in range(60):
        victim.client.clock.now += 30
        victim.embedded(word(number), how)
    assert victim.is_undisturbed()


@pytest.mark.parametrize("how", HOWS)
def test_numbered_pages(victim, how):
    """Our own: /item/1, /item/2, ... as images looked like a visitor that enumerates addresses."""
    for number in range(30):
        victim.embedded(f"/item/{number}", how)
    assert victim.is_undisturbed()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("mode", ["clean", "opaque"])
def test_links_that_nobody_issued(how, mode):
    """Our own: random addresses below the prefix of opaque links, and random marks."""
    victim = Browser(site(f"[marker]\nmode = '{mode}'\n"))
    victim.read("/")
    for number in range(30):
        victim.embedded("/~" + f"{number:03}" * 20, how)
        victim.embedded(f"/one?~={'A' * 23}.{number:04}", how)
    assert victim.is_undisturbed()


@pytest.mark.parametrize("how", HOWS)
def test_links_issued_to_the_attacker(victim, how):
    """Our own: links that were issued to the attacker, as a crawler with many addresses would use them."""
    attacker = Browser(victim.client, OTHER)
    links = [link for number in range(3) for link in marked_links_in(attacker.read(word(number)).body)]
    for link in links:
        victim.embedded(link, how)
    assert victim.is_undisturbed()


@pytest.mark.parametrize("how", HOWS)
def test_the_trap_as_an_image_elsewhere(victim, how):
    """anubis#1580, #1581: others are led into a trap. Here also by a trap that the victim's own address was issued."""
    other = Browser(victim.client, OTHER)
    neighbour = Browser(victim.client, victim.address, scripts=False)
    for trap in traps_in(other.read("/").body) + traps_in(neighbour.read("/").body):
        assert victim.embedded(trap, how).status in {404, 429}
    assert victim.is_undisturbed()
    assert not victim.client.site.app.gate.blocked


def test_a_click_on_a_trap_that_stands_on_another_site(victim):
    """Our own: the reader clicks, and the trap was issued to its own address."""
    neighbour = Browser(victim.client, victim.address, scripts=False)
    trap = traps_in(neighbour.read("/").body)[0]
    clicked = {"sec-fetch-site": "cross-site", "referer": EVIL}
    assert victim.send(trap, headers=clicked).status == 404
    assert victim.is_undisturbed()


@pytest.mark.parametrize("site_header", ["same-origin", "none"])
def test_a_trap_of_an_address_that_was_shared_once(site_header):
    """Our own: two people in one cafe. Later one posts, on the site itself, a trap that the cafe was issued."""
    client = site()
    victim, attacker = (Browser(client, "192.0.2.77", scripts=False) for _ in range(2))
    victim.read("/")
    trap = traps_in(attacker.read("/two").body)[0]
    victim.address = ME
    victim.read("/three")
    assert victim.send(trap, headers={"sec-fetch-site": site_header, "referer": "http://example.org/two"}).status == 404
    assert victim.is_undisturbed()


def test_a_planted_cookie_that_names_the_attacker():
    """Our own: a cookie set by another sub-domain says that the victim's browser was the attacker before."""
    client = site()
    attacker, victim = Browser(client, OTHER, scripts=False), Browser(client)
    page = attacker.read("/two")
    victim.cookies = dict(attacker.cookies)
    for trap in traps_in(page.body):
        victim.send(trap, headers={"sec-fetch-site": "same-origin", "referer": "http://example.org/two"})
    assert victim.is_undisturbed()


@pytest.mark.parametrize("value", ["x", "A" * 43, "%00", '"', "A" * 4000])
@pytest.mark.parametrize("name", ["hedgerow", "hedgerow-clearance", "__Host-hedgerow-clearance"])
def test_a_planted_cookie_of_nobody(name, value):
    """Our own: cookies under our names that we did not make."""
    victim = Browser(site())
    victim.cookies[name] = value
    assert victim.is_undisturbed()


def test_a_planted_clearance_of_a_blocked_visitor():
    """Our own: the attacker's clearance, blocked for a trap, in the victim's browser in another network."""
    client = site()
    attacker, victim = Browser(client, OTHER), Browser(client)
    attacker.read("/")
    attacker.read("/one")
    for trap in traps_in(attacker.read("/two").body):
        attacker.send(trap, headers={"sec-fetch-site": "same-origin", "referer": "http://example.org/two"})
    assert attacker.read("/three").status == 403
    victim.cookies = dict(attacker.cookies)
    assert victim.is_undisturbed()


def test_a_planted_cookie_does_not_count_over_https():
    """Our own: over https only cookies that no other host can set (`__Host-`) are read."""
    client = site()
    attacker, victim = Browser(client, "192.0.2.9"), Browser(client)
    attacker.read("/")
    attacker.read("/one")
    assert "hedgerow-clearance" in attacker.cookies
    victim.cookies = dict(attacker.cookies)
    victim.send("/two", scheme="https")
    assert client.entries[-1].visit.visitor == ME
    assert client.entries[-1].visit.linked == ()


@pytest.mark.parametrize("how", HOWS)
def test_a_block_is_not_prolonged(how):
    """Our own: a visit during a block starts it again. An image on another site must not."""
    client = site()
    victim = Browser(client, scripts=False)
    now, evidence = client.clock.now, Evidence("trap", "trap", 1.0, "A trap.")
    client.site.app.gate.state.commit(Block(ME, ME, now, now + 3600, "refuse", evidence, 1))
    client.clock.now += 1800
    assert victim.embedded("/one", how).status == 403
    (block,) = client.site.app.gate.state.blocks(client.clock.now)
    assert block.until == now + 3600


def test_the_price_of_a_clearance_is_not_raised_by_frames():
    """Our own: in a frame the script of the page would obtain a clearance that the browser does not keep."""
    client = site()
    victim = Browser(client)
    for number in range(15):
        page = victim.embedded(word(number), "iframe")
        assert page.status == 200
        assert b"page.js" not in page.body
    victim.read("/")
    assert "hedgerow-clearance" in victim.cookies


def test_frames_do_not_keep_a_sign_in_elsewhere_from_leading_back():
    """Our own: what other sites embed is declined, and the page that one opens in the window is shown."""
    client = site()
    victim = Browser(client)
    for number in range(100):
        victim.embedded(word(number), "iframe")
    assert victim.embedded("/welcome", "popup").status == 200
    assert victim.is_undisturbed()


def test_a_form_that_sends_itself():
    """Our own: forms of another site, into a frame and into the window, without the visitor's cookies."""
    client = site()
    victim = Browser(client)
    victim.read("/")
    for number in range(100):
        victim.embedded(f"/comment/{number}", ("iframe", "popup")[number % 2], method="POST", body=b"a=1")
    assert victim.is_undisturbed()


@pytest.mark.parametrize("name", ["answer", "choose", "clear", "task"])
def test_wrong_answers_to_challenges_that_another_site_sends(name):
    """Our own: each wrong answer to a challenge weighs something, so that nobody can guess for ever."""
    client = site()
    victim = Browser(client)
    for number in range(60):
        body = f"ticket=A&challenge=B{number}&answer=C".encode()
        victim.embedded("/.hedgerow/" + name, "iframe", method="POST", body=body)
    assert victim.is_undisturbed()


def test_reports_of_a_browser_that_another_site_sends():
    """Our own: what the script of a page reports on a driven browser, sent by another site."""
    client = site()
    victim = Browser(client)
    victim.read("/")
    for number in range(30):
        body = f"n={number}&webdriver=1&visible=1&files=9".encode()
        victim.embedded("/.hedgerow/signs", "fetch", method="POST", body=body)
    assert victim.is_undisturbed()


def test_the_sessions_of_the_watch_are_the_visitors_own():
    """Our own: pages that another site loads in the order of a crawler are no part of how a visitor reads."""
    client = site()
    watch = Watch(client.site.app.gate.engine.policy, client.site.app.gate.state.update_score, windows=object())
    victim = Browser(client)
    for how in HOWS:
        victim.embedded("/one", how)
        watch.see(client.entries[-1].visit, client.entries[-1].decision)
    assert watch.pending == 0
    victim.read("/two")


def test_a_surge_of_entries_cannot_be_staged():
    """Our own: an advertisement makes many browsers load pages, so that the whole site would be on its guard."""
    client = site("[rotating]\nentries = 50\n")
    for number in range(300):
        client.clock.now += 1
        Browser(client, f"10.0.{number // 200}.{number % 200}").embedded(word(number), "iframe")
    assert Browser(client).is_undisturbed()


@pytest.mark.parametrize("accept", ["image/avif,image/webp,*/*;q=0.8", "text/css,*/*;q=0.1"])
@pytest.mark.parametrize("referrer", [EVIL, None])
def test_images_and_styles_over_plain_http(accept, referrer):
    """Our own: over plain HTTP browsers do not say which site asks, and a page may hide itself as the referrer."""
    victim = Browser(site(), headers=OVER_HTTP)
    for number in range(60):
        headers = {"accept": accept, "referer": referrer}
        victim.send(f"/item/{number}", cookies=False, headers=headers)
    assert victim.is_undisturbed()


@pytest.fixture(params=["new", "new, without scripts", "with a clearance", "without scripts"])
def victim_over_http(request: pytest.FixtureRequest) -> Browser:
    """A reader over plain HTTP, where browsers do not say which site asks."""
    reader = Browser(site(), headers=OVER_HTTP, scripts="without scripts" not in request.param)
    if not request.param.startswith("new"):
        reader.read("/")
        reader.read("/one")
    return reader


@pytest.mark.parametrize("how", IN_PAGES)
def test_sixty_pages_at_once_over_plain_http(victim_over_http, how):
    """Our own: sixty frames reached the rate limit of the address, and the pages that it may have in a day."""
    statuses = [victim_over_http.embedded(word(number), how).status for number in range(60)]
    assert statuses.count(200) <= 40, "a crawler that looks like this gets no more"
    assert victim_over_http.is_undisturbed()


@pytest.mark.parametrize("how", ["iframe", "script"])
def test_five_hundred_pages_in_three_seconds_over_plain_http(victim_over_http, how):
    """Our own: more than any rate limit allows."""
    for number in range(500):
        victim_over_http.client.clock.now += 0.005
        victim_over_http.embedded(word(number), how)
    assert victim_over_http.is_undisturbed()


@pytest.mark.parametrize("how", IN_PAGES)
@pytest.mark.parametrize("referrer", [EVIL, None])
def test_the_pages_of_a_day_over_plain_http(victim_over_http, how, referrer):
    """Our own: frames of another site used up the pages of an address, also where they hide who asks."""
    for number in range(60):
        victim_over_http.client.clock.now += 30
        victim_over_http.embedded(word(number), how, headers={"referer": referrer})
    assert victim_over_http.is_undisturbed()


@pytest.mark.parametrize("how", IN_PAGES)
def test_numbered_pages_over_plain_http(victim_over_http, how):
    """Our own: thirty numbered frames made readers with a clearance suspects."""
    for number in range(30):
        victim_over_http.embedded(f"/item/{number}", how)
    assert victim_over_http.is_undisturbed()


@pytest.mark.parametrize("how", IN_PAGES)
def test_marks_that_nobody_issued_over_plain_http(victim_over_http, how):
    """Our own: random marks, and random addresses below the prefix of opaque links."""
    for number in range(30):
        victim_over_http.embedded(f"/one?~={'A' * 23}.{number:04}", how)
        victim_over_http.embedded("/~" + f"{number:03}" * 20, how)
    assert victim_over_http.is_undisturbed()


@pytest.mark.parametrize("how", IN_PAGES)
def test_links_issued_to_the_attacker_over_plain_http(victim_over_http, how):
    """Our own: links and hidden links of a page that somebody else was given, each five times."""
    page = Browser(victim_over_http.client, OTHER, headers=OVER_HTTP).read("/")
    for link in marked_links_in(page.body) + traps_in(page.body):
        for _ in range(5):
            victim_over_http.embedded(link, how)
    assert victim_over_http.is_undisturbed()


@pytest.mark.parametrize("scripts", [True, False])
def test_frames_are_no_session_of_the_visitor_over_plain_http(scripts):
    """Our own: the watch judged sixty frames of other sites as pages that somebody at this address read."""
    client = site()
    victim = Browser(client, headers=OVER_HTTP, scripts=scripts)
    watch = Watch(client.site.app.gate.engine.policy, client.site.app.gate.state.update_score, windows=object())
    for number in range(30):
        victim.embedded(word(number), "iframe")
        watch.see(client.entries[-1].visit, client.entries[-1].decision)
    assert watch.pending == 0


def test_a_surge_of_frames_over_plain_http_is_no_reason_to_ask_people():
    """Our own: an advertisement makes many browsers load pages, so that the whole site would be on its guard."""
    client = site("[rotating]\nentries = 50\n")
    statuses = []
    for number in range(300):
        client.clock.now += 1
        reader = Browser(client, f"10.0.{number // 200}.{number % 200}", headers=OVER_HTTP)
        statuses.append(reader.embedded(word(number), "iframe").status)
    assert statuses[-1] == 302
    for scripts in (True, False):
        assert Browser(client, f"10.1.1.{scripts:d}", headers=OVER_HTTP, scripts=scripts).is_undisturbed()


def test_a_blocked_reader_is_not_blocked_longer_by_frames_over_plain_http():
    """Our own: each frame began the block of the address again."""
    client = site()
    evidence = Evidence("density", "density-visitor", 1.0, "Fast.")
    client.site.app.gate.state.commit(Block(ME, ME, client.clock.now, client.clock.now + 60, "refuse", evidence))
    victim = Browser(client, headers=OVER_HTTP)
    for number in range(10):
        client.clock.now += 5
        assert victim.embedded(word(number), "iframe").status == 429
    client.clock.now += 15
    assert victim.is_undisturbed()


def test_a_browser_that_keeps_cookies_is_sent_on_once_and_keeps_its_address():
    """Who comes after many frames is asked for a cookie by a redirect to the same page."""
    client = site()
    victim = Browser(client, headers=OVER_HTTP, scripts=False)
    for number in range(20):
        victim.embedded(word(number), "iframe")
    redirect = victim.send("/start?page=2&a=%C3%BC")
    assert redirect.status == 302
    assert redirect.header("cache-control") == b"no-store"
    address = redirect.header("location").decode()
    assert address.startswith("/start?page=2&a=%C3%BC&~=")
    assert victim.send(address).status == 200
    assert client.entries[-1].visit.target == "/start?page=2&a=%C3%BC"
    frame = Browser(client, headers=OVER_HTTP, scripts=False)
    assert frame.send(address, cookies=False).status == 403, "a frame keeps no cookie"


def test_around_a_wsgi_application_too():
    app = WsgiApplication(react=lambda environ: {"chunks": (page_at(environ["PATH_INFO"]),)})
    victim = Browser(WsgiClient(app, FAST + "[watch]\nenabled = false\n", silent=True), headers=OVER_HTTP)
    statuses = [victim.embedded(word(number), "iframe").status for number in range(20)]
    assert statuses == [200] * 10 + [302] * 10
    assert victim.is_undisturbed()


@pytest.mark.parametrize("mode", ["opaque", "readable", "off"])
def test_with_other_marks_too(mode):
    client = site(f"[marker]\nmode = '{mode}'\n")
    victim = Browser(client, headers=OVER_HTTP)
    for number in range(60):
        victim.embedded(word(number), "iframe")
    # Where links are not marked, the first page cannot be sent on.
    assert victim.read("/start").status == (403 if mode == "off" else 200)
    assert mode == "off" or victim.is_undisturbed()


def test_who_looks_like_a_frame_over_plain_http_gets_no_more():
    """A crawler without cookies has half of k1 as a frame, and k1 by links: together as much as one with them."""
    client = site()
    crawler = Browser(client, headers=OVER_HTTP, scripts=False)
    statuses = []
    for number in range(60):
        client.clock.now += 5
        statuses.append(crawler.send(word(number), cookies=False, headers={"referer": EVIL}).status)
    assert statuses == [200] * 10 + [302] * 50
    statuses = [crawler.read(word(number)).status for number in range(60, 120)]
    assert statuses.count(200) == 20


def test_who_drops_each_cookie_but_follows_the_redirect_gets_no_more():
    client = site()
    got = 0
    for number in range(100):
        client.clock.now += 5
        got += Browser(client, headers=OVER_HTTP, scripts=False).read(word(number)).status == 200
    assert got == 30


def test_an_api_for_other_sites_is_not_declined():
    """The other side: a map or a comment box on another site calls this one a few hundred times."""
    api = Application(b"{}", headers=[(b"content-type", b"application/json")])
    client = Client(api, FAST, silent=True)
    reader = Browser(client)
    for number in range(390):
        client.clock.now += 0.01
        assert reader.embedded(f"/tiles/{number}", "fetch").status == 200


def test_a_page_that_other_sites_embed():
    """The other side: a player in frames on many sites. The operator says how many."""
    client = site("[containment]\nelsewhere = 500\n")
    office = Browser(client)
    for number in range(500):
        client.clock.now += 10
        assert office.embedded("/player" + word(number), "iframe").status == 200


def test_a_page_that_another_sub_domain_embeds():
    """The other side: there the browser keeps a clearance, so the page obtains one."""
    reader = Browser(site())
    assert b"page.js" in reader.embedded("/player", "iframe", site="same-site").body


def test_a_sign_in_elsewhere_leads_back():
    """The other side: another site sends the reader back by a script. It gets the page, and its script."""
    client = site()
    reader = Browser(client)
    page = reader.embedded("/welcome", "popup")
    assert (page.status, b"page.js" in page.body) == (200, True)


# ---- A crawler that says that another site caused its requests


@pytest.mark.parametrize("how", HOWS)
def test_a_crawler_gains_nothing_by_blaming_another_site(how):
    """Our own: with headers of a frame, an image or a script it gets twice k1 pages a day and no more, then 429."""
    crawler = Browser(site(), scripts=False)
    got = 0
    for number in range(300):
        crawler.client.clock.now += 60
        answer = crawler.embedded(word(number), how)
        assert answer.status in {200, 403 if how == "popup" else 429}
        got += f"<title>{word(number)}<".encode() in answer.body
    assert got == (20 if how == "popup" else 40)


def test_a_suspect_does_not_get_around_its_challenge_by_blaming_another_site():
    """Our own: a visitor that is challenged is also challenged in a frame."""
    client = site()
    crawler = Browser(client, scripts=False)
    gate = client.site.app.gate
    gate.state.update_score(gate.engine.policy.flag(ME, client.clock.now, "suspect", "campaign"))
    assert crawler.read("/one").status == 429 or client.entries[-1].decision.action == "challenge"
    for how in HOWS:
        crawler.embedded("/two", how)
        assert client.entries[-1].decision.action == "challenge", how


def test_a_blocked_crawler_stays_blocked_when_it_blames_another_site():
    """Our own: a block holds for what another site causes as well."""
    client = site()
    crawler = Browser(client, scripts=False)
    trap = traps_in(crawler.read("/").body)[0]
    crawler.send(trap, headers={"sec-fetch-site": "same-origin", "referer": "http://example.org/"})
    for how in HOWS:
        assert crawler.embedded("/two", how).status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
        {"referer": "https://www.google.com/"},
    ],
)
def test_half_of_a_browsers_headers_are_not_believed(headers):
    """Our own: a crawler that adds one header and follows a trap is blocked as before."""
    client = site()
    own = {"user-agent": "reader/1.0", "accept": "text/html", "accept-language": "en"}
    if "referer" in headers:
        own["user-agent"] = "curl/8"
    crawler = Browser(client, scripts=False, headers=own)
    page = crawler.send("/", headers=headers)
    page = page if traps_in(page.body) else crawler.send("/two", headers=headers)
    assert crawler.send(traps_in(page.body)[0], headers=headers).status == 403
    assert client.site.app.gate.blocked == 1
