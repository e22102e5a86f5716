"""
People and programs that were accused of crawling, through the whole middleware: none is blocked or challenged.

Each sends what a real one sends. Next to each stands a crawler that does the same without being one, and is stopped.
"""

from __future__ import annotations

import random
import re
from html import unescape
from urllib.parse import urljoin

import pytest

import driving
from driving import Answer, Application
from hedgerow.markers.token import Key, TokenCodecs

HOST = "https://example.org"
MODES = ["[marker]\nmode = 'clean'\n", "[marker]\nmode = 'opaque'\n", "[marker]\nmode = 'readable'\n"]
CHROME = {
    "sec-ch-ua": '"Chromium";v="140", "Not=A?Brand";v="24"',
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/140.0.0.0 Safari/537.36",
    "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "sec-fetch-site": "none",
    "sec-fetch-mode": "navigate",
    "sec-fetch-user": "?1",
    "sec-fetch-dest": "document",
    "accept-encoding": "gzip, deflate, br, zstd",
    "accept-language": "en-GB,en;q=0.9",
}
OVER_HTTP = {name: value for name, value in CHROME.items() if not name.startswith("sec-")}
FETCH = {"accept": "*/*", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty", "sec-fetch-user": None}
LINKS = 12


def site_page(target: str) -> bytes:
    """A page with twelve links to others, which depend on its address."""
    numbers = random.Random(target).sample(range(1000), LINKS)
    rows = "".join(f'<p>Some words, <a href="/page/{n}/text">more of them</a>.</p>\n' for n in numbers)
    return f"<!DOCTYPE html><html><head><title>{target}</title></head><body>{rows}</body></html>".encode()


def site() -> Application:
    return Application(react=lambda scope: {"chunks": (site_page(scope["raw_path"].decode()),)})


class Client(driving.Client):
    def __init__(self, text: str = "", *, key: Key | None = None) -> None:
        super().__init__(site(), text)
        if key is not None:
            self.site.tokens = TokenCodecs([key])
            self.site.reload(driving.settings(text).without_clearances())

    @property
    def codes(self) -> list[str]:
        return [one.code for entry in self.entries for one in entry.decision.evidence]


class Browser:
    """Follows links as Chrome does, over https; with *cookies* it keeps them."""

    def __init__(self, client: Client, address: str, *, cookies: bool = True, headers: dict[str, str] = CHROME) -> None:
        self.client, self.address, self.headers = client, address, headers
        self._cookies: dict[str, str] | None = {} if cookies else None
        self.here = ""
        self.page: Answer | None = None

    def ask(self, target: str, **other: str | None) -> Answer:
        given = {name.replace("_", "-"): value for name, value in other.items()}
        headers = {name: value for name, value in {**self.headers, **given}.items() if value is not None}
        if self._cookies:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        answer = self.client.get(target, peer=self.address, headers=headers, scheme="https")
        for name, value in answer.headers:
            if name.lower() == b"set-cookie" and self._cookies is not None:
                key, _, rest = value.decode().partition("=")
                self._cookies[key] = rest.partition(";")[0]
        return answer

    def open(self, target: str, **other: str | None) -> Answer:
        self.client.clock.now += 3
        self.page = self.ask(target, **other)
        # Without JavaScript: with it, a clean mark would not be in the referrer.
        self.here = urljoin(HOST, target)
        return self.page

    def links(self) -> list[str]:
        """The links that a person sees."""
        assert self.page is not None
        found = re.findall(r'<a href="([^"]*)">more', driving.without_bait(self.page.body).decode())
        assert len(found) == LINKS
        return [unescape(link) for link in found]

    def click(self, link: str) -> Answer:
        site = "same-origin" if "sec-fetch-site" in self.headers else None
        return self.open(link, sec_fetch_site=site, referer=self.here)

    def fetch(self, link: str, **other: str | None) -> Answer:
        """What `fetch` of a script on the page asks for."""
        return self.ask(link, **{"sec_fetch_site": "same-origin", "referer": self.here, **FETCH, **other})


def traps_in(page: Answer) -> list[str]:
    """The hidden links of a page."""
    return driving.traps_in(page.body)


def undisturbed(client: Client) -> None:
    assert {entry.decision.action for entry in client.entries} == {"pass"}
    assert client.site.app.gate.blocked == 0


# ---- Links that were passed on


@pytest.mark.parametrize("headers", [CHROME, {**CHROME, "sec-fetch-site": "cross-site"}, OVER_HTTP])
@pytest.mark.parametrize("text", MODES)
def test_forty_readers_of_a_newsletter_with_twelve_links_that_were_copied(text, headers):
    client = Client(text)
    editor = Browser(client, "192.0.2.1")
    editor.open("/")
    newsletter = editor.links()
    for number in range(40):
        reader = Browser(client, f"198.51.{number}.7", headers=headers)
        for link in newsletter:
            assert reader.open(link).status == 200
    undisturbed(client)
    assert client.codes.count("minted-for-another") == 40 * LINKS


def test_links_of_another_from_pages_of_this_site_still_make_a_suspect():
    client = Client()
    scout, worker = Browser(client, "192.0.2.1"), Browser(client, "198.51.100.7")
    scout.open("/")
    links = scout.links()
    worker.open("/")
    assert [worker.click(link).status for link in links][-1] == 403
    assert client.entries[-1].decision.action == "challenge"


PREVIEWS = {
    "a chat server": {"user-agent": "Synapse (bot; +https://github.com/matrix-org/synapse)", "accept-encoding": "gzip"},
    "another": {"user-agent": "mattermost-9.5.1", "accept": "text/html", "accept-encoding": "gzip"},
    "a phone": {"user-agent": "WhatsApp/2.24.6.77 A", "accept": "*/*", "accept-encoding": "gzip, deflate"},
    "one that names a browser": {
        "user-agent": "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) "
        "Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
        "accept": "*/*", "accept-language": "en-gb", "accept-encoding": "gzip, deflate",
    },
}  # fmt: skip


@pytest.mark.parametrize("headers", PREVIEWS.values(), ids=PREVIEWS)
@pytest.mark.parametrize("text", MODES)
def test_a_server_that_shows_previews_of_shared_links(text, headers):
    """Thirty people post a link each, within an hour; one address fetches them all."""
    client = Client(text)
    bot = Browser(client, "203.0.113.9", cookies=False, headers=headers)
    for number in range(30):
        person = Browser(client, f"198.51.{number}.7")
        person.open("/")
        client.clock.now += 120
        assert bot.open(person.links()[number % LINKS]).status == 200
    undisturbed(client)


# ---- Several addresses


def pool(client: Client, people: int = 10, pages: int = 30, *, first: int = 10) -> set[int]:
    """People without cookies whose requests leave by sixteen addresses in turn; the statuses of their pages."""
    chance, statuses = random.Random(4), set()
    browsers = [Browser(client, "", cookies=False) for _ in range(people)]
    for browser in browsers:
        browser.address = f"192.0.2.{first + chance.randrange(16)}"
        statuses.add(browser.open("/").status)
    for _ in range(pages):
        for browser in browsers:
            browser.address = f"192.0.2.{first + chance.randrange(16)}"
            statuses.add(browser.click(chance.choice(browser.links())).status)
    return statuses


@pytest.mark.parametrize("text", MODES)
def test_sixteen_addresses_of_one_network_without_cookies(text):
    client = Client(text)
    assert pool(client) == {200}
    undisturbed(client)
    assert "minted-for-another" not in client.codes


def test_a_crawler_does_not_look_like_such_a_network():
    """It sends no referrer, or is no browser, or has addresses of two networks: each is evidence, or a campaign."""
    for headers, second in ((OVER_HTTP, "192.0.2.9"), (CHROME, "198.51.100.9")):
        client = Client()
        one = Browser(client, "192.0.2.8", cookies=False, headers=headers)
        other = Browser(client, second, cookies=False, headers=headers)
        one.open("/")
        for link in one.links()[:3]:
            if headers is CHROME:
                other.here = one.here
                other.click(link)
            else:
                other.open(link)
        assert client.codes.count("minted-for-another") == 3


# ---- Addresses that are composed


def test_a_person_who_goes_through_tickets_by_a_script_behind_next():
    client = Client()
    person = Browser(client, "192.0.2.1")
    person.open("/ticket/1")
    for number in range(2, 60):
        assert person.click(f"/ticket/{number}").status == 200
    undisturbed(client)
    assert "enumerated" not in client.codes


def test_a_script_that_fetches_tickets():
    client = Client()
    person = Browser(client, "192.0.2.1")
    person.open("/tickets")
    for number in range(1, 61):
        client.clock.now += 1
        assert person.fetch(f"/ticket/{number}").status == 200
    undisturbed(client)


@pytest.mark.parametrize(
    "headers",
    [
        {**CHROME, "sec-fetch-site": "none"},
        {**CHROME, "sec-fetch-site": "same-origin", "referer": f"{HOST}/"},
        {**CHROME, "sec-fetch-site": "cross-site", "referer": "https://search.example/"},
        {**OVER_HTTP, "referer": f"{HOST}/"},
        {"user-agent": "Scrapy/2.11 (+https://scrapy.org)", "accept": "text/html", "accept-language": "en"},
    ],
)
def test_a_crawler_that_counts_up_is_challenged_at_the_eleventh(headers):
    client = Client()
    crawler = Browser(client, "192.0.2.1", headers=headers)
    statuses = [crawler.open(f"/ticket/{number}").status for number in range(1, 31)]
    assert statuses.count(200) <= 11
    assert client.entries[-1].decision.action == "challenge"


def test_a_crawler_that_counts_up_with_the_last_page_as_referrer_and_is_no_browser():
    client = Client()
    crawler = Browser(
        client, "192.0.2.1",
        headers={"user-agent": "Scrapy/2.11 (+https://scrapy.org)", "accept": "text/html", "accept-language": "en"},
    )  # fmt: skip
    crawler.open("/ticket/1")
    assert [crawler.click(f"/ticket/{number}").status for number in range(2, 31)].count(200) <= 10


# ---- A lost key


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("text", MODES)
def test_after_the_key_was_lost(text, number):
    """All marks of before are worthless. Pages that are still open, bookmarks and posted links have them."""
    old, new = Client(text), Client(text, key=Key(number, bytes(64), 0.0))
    before = Browser(old, "192.0.2.1")
    links = []
    for start in range(5):
        before.open(f"/{start}")
        links += before.links()
    person = Browser(new, "192.0.2.1")
    found = 404 if "opaque" in text else 200
    for origin in ("none", "cross-site"):
        assert {person.open(link, sec_fetch_site=origin).status for link in links} == {found}
    person.here = f"{HOST}/0"
    assert {person.click(link).status for link in links[:30]} == {found}
    person.open("/")
    assert {person.click(link).status for link in person.links()} == {200}
    undisturbed(new)


# ---- Scripts that fetch what they find


def prefetch_all(browser: Browser) -> None:
    """Fetch every link of the page, hidden ones too, as `prefetchAll` does where `rel=prefetch` is not supported."""
    assert browser.page is not None
    for trap in traps_in(browser.page):
        assert browser.fetch(trap).status == 404
    for link in browser.links():
        assert browser.fetch(link).status == 200


@pytest.mark.parametrize("text", MODES)
def test_a_script_that_fetches_every_link_of_its_page(text):
    client = Client(text)
    person = Browser(client, "192.0.2.1")
    person.open("/")
    for _ in range(5):
        client.clock.now += 30
        prefetch_all(person)
        assert person.click(person.links()[0]).status == 200
    undisturbed(client)
    assert client.codes.count("trap-fetched") > 10


def test_an_image_that_is_a_hidden_link_blocks_nobody():
    client = Client()
    person = Browser(client, "192.0.2.1")
    person.open("/")
    (trap, *_) = traps_in(person.page)
    image = {"accept": "image/*", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image", "sec-fetch-user": None}
    assert person.ask(trap, **{"sec_fetch_site": "same-origin", **image}).status == 404
    assert person.click(person.links()[0]).status == 200
    undisturbed(client)


def crawl(browser: Browser, most: int = 200) -> int:
    """Fetch every link of every page, in breadth; the number of pages that came."""
    waiting, pages = ["/"], 0
    for _ in range(most):
        if not waiting:
            break
        browser.client.clock.now += 1
        answer = browser.ask(waiting.pop(0))
        if answer.status == 200:
            pages += 1
            waiting += [unescape(link.decode()) for link in re.findall(rb'<a [^>]*href="([^"]*)"', answer.body)]
    return pages


@pytest.mark.parametrize("text", MODES)
@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-mode": "cors"},
        {"sec-fetch-dest": "empty"},
        {"sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
        {"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"},
        {"sec-fetch-dest": "document", "sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"},
    ],
)
def test_a_crawler_with_a_header_of_scripts_is_blocked_at_its_first_hidden_link(headers, text):
    client = Client(text)
    assert crawl(Browser(client, "192.0.2.1", headers={**OVER_HTTP, **headers})) <= 2
    assert client.entries[-1].decision.code == "trap"


@pytest.mark.parametrize("text", MODES)
@pytest.mark.parametrize(("referrer", "most"), [("", 5), (f"{HOST}/elsewhere", 5), (f"{HOST}/", 2 * LINKS)])
def test_a_crawler_that_calls_itself_a_script_gets_little_further(referrer, most, text):
    """With the first page as its referrer it gets what that page links to, as a script on it would."""
    client = Client(text)
    headers = {**OVER_HTTP, "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
    pages = crawl(Browser(client, "192.0.2.1", headers=headers | ({"referer": referrer} if referrer else {})))
    assert pages <= most
    assert client.entries[-1].decision.action == "challenge"


def test_a_crawler_that_fetches_within_one_page_of_a_browser_gets_little_further():
    """It opens the first page, and has a script on it fetch one page after the other."""
    client = Client()
    browser = Browser(client, "192.0.2.1")
    browser.open("/")
    headers = {**CHROME, "sec-fetch-site": "same-origin", "referer": f"{HOST}/"} | FETCH
    crawler = Browser(client, "192.0.2.1", headers={name: value for name, value in headers.items() if value})
    assert crawl(crawler) <= 3 * LINKS
    assert client.entries[-1].decision.action == "challenge"


# ---- Many at once


def test_a_script_that_makes_a_hundred_and_thirty_calls_in_three_seconds():
    client = Client()
    client.app.react = lambda scope: DATA if scope["path"].startswith("/data/") else None
    person = Browser(client, "192.0.2.1")
    person.open("/")
    for number in range(130):
        client.clock.now += 3 / 130
        assert person.fetch(f"/data/{number}").status == 200
    undisturbed(client)


DATA = {"headers": [(b"content-type", b"application/json")], "chunks": (b"{}",)}


def test_pages_are_counted_as_before():
    """A hundred in three seconds, whatever a script calls them."""
    client = Client("[density]\nblock_for = 60\n[traps]\nenabled = false\n")
    crawler = Browser(client, "192.0.2.1")
    crawler.open("/")
    client.clock.now += 60
    statuses = []
    for number in range(130):
        client.clock.now += 3 / 130
        statuses.append(crawler.fetch(f"/page/{number * 37 % 101}/{number}").status)
    assert statuses.count(200) <= 100
