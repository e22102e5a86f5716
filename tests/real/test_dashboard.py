"""
The dashboard in a real browser, with a crawl in progress behind it.

HEDGEROW_SHOTS names a folder for screenshots of every page in every size and theme. `tools/dashboard-pictures` puts
them into `docs`.
"""

from __future__ import annotations

import itertools
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from attacks.browsers import CHROME
from hedgerow.web.admin.passwords import hash_password

from .browsing import tab
from .challenged import axe_faults
from .conftest import missing
from .servers import wait_for

AXE = Path(__file__).parent / "axe" / "axe.min.js"
SHOTS = os.environ.get("HEDGEROW_SHOTS", "")
PASSWORD = "correct horse battery"
SETTINGS = f"""
[identity]
trusted_proxies = ["127.0.0.1/32"]
[challenge]
kinds = ["work"]
[rotating]
enabled = false
# Pages on which a crew works that avoids hidden links.
[[path]]
path = "/sql-*"
traps = false
[[admin.users]]
name = "alice"
password = "{hash_password(PASSWORD)}"
"""
SIZES = {"phone": (360, 740), "desk": (1280, 900), "wall": (3840, 2160)}
CRAWLER, VICTIM = "198.51.100.7", "203.0.113.9"
CREW = tuple(f"198.51.{100 + n}.20" for n in range(4))
READER = "203.0.113.30"
EVIL = "Mozilla/5.0 <img src=x onerror=document.title='owned'>"
# The elements that make a page scroll sideways, unless they scroll by themselves.
_TOO_WIDE = """() => document.documentElement.scrollWidth <= window.innerWidth ? [] :
  [...document.querySelectorAll("main *")].filter((one) => one.getBoundingClientRect().right > window.innerWidth + 1
    && !one.closest(".scroll, .chart")).map((one) => one.outerHTML.slice(0, 120))"""
_LINK = re.compile(rb'href="([^"#]+)"')
_REFERENCE = re.compile(rb"\b[0-9A-F]{4}-[0-9A-F]{4}\b")


def get(url: str, address: str, agent: str, more: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    headers = {"Accept": "text/html", **(more or {}), "X-Forwarded-For": address, "User-Agent": agent}
    headers.pop("accept-encoding", None)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def crawl(start: str, address: str, agent: str, pages: int) -> str:
    """Follow every link, hidden ones too, and return the reference of the last refusal."""
    queue, seen, reference = [start], {start}, ""
    while queue and pages:
        pages -= 1
        status, body = get(queue.pop(0), address, agent)
        if status >= 400 and (found := _REFERENCE.search(body)):
            reference = found[0].decode()
        for link in _LINK.findall(body):
            url = urljoin(start, unescape(link.decode("utf-8", "replace")))
            if urlsplit(url).netloc == urlsplit(start).netloc and url not in seen:
                seen.add(url)
                queue.append(url)
        if not queue:
            queue.append(start + f"?again={pages}")
    return reference


def share_links(url: str) -> None:
    """Let each of a crew use links that were issued to the others, as crawlers do that share a queue."""
    queue, seen = [f"{url}/sql-commands.html"], {"/sql-commands.html"}
    for number in range(48):
        if not queue:
            return
        _, body = get(queue.pop(), CREW[number % len(CREW)], CHROME["user-agent"], CHROME)
        for link in _LINK.findall(body):
            target = urljoin(url + "/", unescape(link.decode("utf-8", "replace")))
            path = urlsplit(target).path
            if path.startswith("/sql-") and path not in seen:
                seen.add(path)
                queue.append(target)


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.exists():
        missing("axe-core")
    return AXE.read_text("utf-8")


@pytest.fixture(scope="module")
def crawled(protect, site, browser):
    """
    Hedgerow, a crawl that goes on, a crew that shares links, challenges that were shown and solved silently, and the
    reference of a person who was refused.
    """
    server = protect(site.url, settings=SETTINGS)
    for _ in range(8):
        get(server.url + "/", "203.0.113.4", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
    crawl(server.url + "/", CRAWLER, EVIL, 60)
    reference = crawl(server.url + "/", VICTIM, "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0", 60)
    assert reference
    share_links(server.url)
    # Somebody without JavaScript reads more than is free, and is asked.
    pages = [f"/release-15-{n}.html" for n in range(1, 11)] + [f"/errcodes-appendix.html?{n}" for n in range(20)]
    for path in pages:
        get(server.url + path, READER, CHROME["user-agent"], {**CHROME})
    # Somebody with JavaScript solves silently.
    with tab(browser) as page:
        page.goto(server.url + "/index.html")
        page.mouse.move(200, 200, steps=5)

        def cleared() -> bool:
            page.wait_for_timeout(50)
            return "hedgerow-clearance" in str(page.context.cookies())

        wait_for("a clearance", cleared)
    wait_for("a campaign", lambda: "visitors used" in server.said())
    get(server.url + "/", "203.0.113.40", "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)")
    work_at_the_desk(browser, server.admin)
    return server, reference


def work_at_the_desk(browser, admin: str) -> None:
    """Put somebody on a list and make a report, so that these pages and the audit log have something to show."""
    with tab(browser) as page:
        log_in(page, admin)
        page.get_by_role("link", name="Lists").click()
        page.get_by_label("Subject").fill("192.0.2.0/24")
        page.get_by_label("Reason").fill("The office")
        page.get_by_role("button", name="Add").click()
        page.get_by_role("link", name="Reports").click()
        page.get_by_role("button", name="Make a report now").click()
        # The page asks by itself until the report is there.
        page.locator("#table tbody a").first.wait_for(timeout=120_000)


def log_in(page, admin: str) -> None:
    page.goto(admin + "/")
    page.get_by_label("User", exact=True).fill("alice")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Is the site being crawled?").wait_for()


def paths(reference: str, campaign: str) -> dict[str, str]:
    return {
        "now": "/",
        "visitors": "/dashboard/visitors",
        "visitor": f"/dashboard/visitor?visitor={CRAWLER}",
        "complaint": f"/dashboard/complaint?reference={reference}",
        "campaigns": "/dashboard/campaigns",
        "campaign": f"/dashboard/campaigns?id={campaign}",
        "member": f"/dashboard/visitor?visitor={CREW[1]}",
        "lists": "/dashboard/lists",
        "bots": "/dashboard/bots?sort=-false",
        "models": "/dashboard/models",
        "reports": "/dashboard/reports",
        "settings": "/dashboard/settings",
        "audit": "/dashboard/audit",
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_page_can_be_read_by_everybody_and_asks_no_other_machine(browser, crawled, axe, size, theme):
    server, reference = crawled
    width, height = SIZES[size]
    asked, said = [], []
    with tab(browser, color_scheme=theme, bypass_csp=False) as page:
        page.set_viewport_size({"width": width, "height": height})
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("response", lambda answer: said.append(answer.url) if answer.status == 400 else None)
        faults = []

        def look(name: str, path: str) -> None:
            page.goto(server.admin + path)
            page.wait_for_timeout(300)
            if SHOTS:
                page.screenshot(path=Path(SHOTS) / f"dashboard-{name}-{size}-{theme}.png", full_page=size != "wall")
            assert "owned" not in page.title()
            assert page.evaluate(_TOO_WIDE) == [], f"{name} is too wide"
            faults.extend(f"{name}: {fault}" for fault in axe_faults(page, axe))

        look("login", "/")
        log_in(page, server.admin)
        # The login form is answered with 401, which browsers note.
        said.clear()
        page.goto(server.admin + "/dashboard/campaigns")
        campaign = page.locator("#table tbody a").first.inner_text()
        for name, path in paths(reference, campaign).items():
            look(name, path)
        assert faults == []
        assert said == []
    assert {urlsplit(url).netloc for url in asked if not url.startswith(("about:", "data:"))} == {
        urlsplit(server.admin).netloc
    }


def test_the_chart_is_drawn_and_moves(browser, crawled):
    server, _ = crawled
    with tab(browser) as page:
        log_in(page, server.admin)
        page.locator("#chart canvas").wait_for()
        assert "Yes, the site is being crawled" in page.locator(".sentence").inner_text()
        before = page.locator(".tiles dd").first.inner_text()
        for _ in range(5):
            get(server.url + "/", "203.0.113.5", "Mozilla/5.0")
        page.wait_for_function("before => document.querySelector('.tiles dd').innerText !== before", arg=before)
        page.get_by_role("button", name="Theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_from_a_complaint_to_let_in_in_five_clicks(browser, crawled):
    server, reference = crawled
    # An address made up for each request would be another visitor: this is the one that was refused.
    assert get(server.url + "/", VICTIM, "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0")[0] == 403
    with tab(browser) as page:
        log_in(page, server.admin)
        page.get_by_role("link", name="Complaint").click()
        page.get_by_label("Reference").click()
        page.keyboard.type(reference)
        page.get_by_role("button", name="Find").click()
        page.get_by_role("button", name="Let this person in").click()
        assert "is forgiven" in page.locator(".banner.good").inner_text()
        page.get_by_role("link", name="Audit log").click()
        assert "complaint.let-in" in page.locator("table").inner_text()
    assert get(server.url + "/", VICTIM, "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0")[0] == 200


def test_what_happened_is_on_the_pages(browser, crawled):
    """Challenges of both kinds, the campaign with its pictures, and the path of one of its members."""
    server, _ = crawled
    with tab(browser) as page:
        log_in(page, server.admin)
        challenges = page.get_by_role("heading", name="Challenges").locator("xpath=..").inner_text().splitlines()
        counted = {name.strip(): int(number) for name, _, number in (line.rpartition("\t") for line in challenges[1:])}
        assert counted["shown"] > 0
        assert counted["solved silently"] > 0
        page.get_by_role("link", name="Campaigns").click()
        page.wait_for_url("**/dashboard/campaigns")
        page.locator("#table tbody a").first.click()
        page.wait_for_url("**/dashboard/campaigns?id=*")
        assert page.locator("polyline").count() >= 3
        assert page.locator("path.edge").count() >= 1
        page.goto(f"{server.admin}/dashboard/visitor?visitor={CREW[1]}")
        assert page.get_by_text("link of another visitor").count() > 3
        assert "visits" in page.locator(".reasons").inner_text()


def test_a_report_is_made_in_the_browser_and_shown_apart(browser, crawled):
    server, _ = crawled
    with tab(browser) as page:
        log_in(page, server.admin)
        page.get_by_role("link", name="Reports").click()
        page.locator("#table tbody a").first.click()
        page.wait_for_load_state()
        assert CRAWLER in page.content()
        # It has scripts of its own, and no access to the session of the operator.
        assert page.evaluate("() => { try { return document.cookie; } catch (error) { return error.name; } }") in {
            "", "SecurityError",
        }  # fmt: skip
        page.goto(f"{server.admin}/dashboard/bots?sort=-false")
        assert "bingbot" in page.locator("#table tbody tr").first.inner_text()


def test_under_attack_is_switched_on_and_off_by_a_button(browser, crawled):
    server, _ = crawled
    # An address that asks again and again would be too fast.
    addresses = (f"203.0.113.{n}" for n in itertools.cycle(range(40, 250)))

    def status() -> int:
        return get(server.url + "/", next(addresses), "curl/8.0", {"Accept": "*/*"})[0]

    with tab(browser) as page:
        log_in(page, server.admin)
        page.get_by_label("Under attack? For").fill("10m")
        page.get_by_role("button", name="Ask every visitor for a clearance").click()
        assert "Under attack until" in page.locator(".banner").first.inner_text()
        wait_for("the switch", lambda: status() == 429)
        page.get_by_role("button", name="End “under attack”").click()
        wait_for("the end", lambda: status() == 200)


def test_tables_filter_by_keyboard_and_a_viewer_sees_the_crawler(browser, crawled):
    server, _ = crawled
    with tab(browser) as page:
        log_in(page, server.admin)
        page.goto(server.admin + "/dashboard/visitors")
        page.get_by_label("Filter").fill("no such visitor")
        page.get_by_text("Nothing found.").wait_for()
        page.get_by_label("Filter").fill(CRAWLER)
        page.get_by_role("link", name=CRAWLER, exact=True).wait_for()
        page.get_by_role("link", name=CRAWLER, exact=True).click()
        assert "hidden link" in page.locator(".tree").inner_text()
