"""A browser obtains a clearance while a page is read, and nobody sees anything of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from .browsing import ARGUMENTS, CHROMIUM, Watch, tab
from .servers import Nginx, Protect, wait_for

PAGE = """<!DOCTYPE html><html lang="en"><head><title>{0}</title></head>
<body><h1>{0}</h1><a href="{1}">next</a></body></html>"""
POLICIES = {
    "none": "default-src 'none'",
    "self": "default-src 'self'",
    "nonce": "script-src 'nonce-abc' 'strict-dynamic'; object-src 'none'; base-uri 'none'",
    "workers": "script-src 'self'; worker-src 'none'; connect-src 'none'",
    "two": "default-src 'self'; connect-src 'none', script-src https:",
    "inline": "script-src 'unsafe-inline'",
    "hash": "default-src 'none'; script-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
    "trusted": "script-src 'self'; require-trusted-types-for 'script'",
    "named": "script-src 'nonce-abc' 'strict-dynamic'; require-trusted-types-for 'script'; trusted-types 'none'",
}
"""Content security policies, by the folder of the site that has them."""


@pytest.fixture(scope="module")
def site(
    nginx: Callable[..., Nginx], protect: Callable[..., Protect], tmp_path_factory: pytest.TempPathFactory
) -> Protect:
    root = tmp_path_factory.mktemp("site")
    for folder in ("", *POLICIES):
        (root / folder).mkdir(exist_ok=True)
        for number in range(3):
            (root / folder / f"{number}.html").write_text(PAGE.format(f"Page {number}", f"{number + 1}.html"))
    policies = "".join(
        f'location /{name}/ {{ add_header Content-Security-Policy "{policy}"; }}\n' for name, policy in POLICIES.items()
    )
    # All these browsers are driven, and have one address. After a dozen of them the watch would take it for a crawler.
    settings = '[watch]\npaths = "record"\nwindows = "record"\n'
    return protect(nginx(root, more="location = /favicon.ico { return 204; }\n" + policies).url, settings=settings)


def is_cleared(context: BrowserContext) -> bool:
    return any(cookie["name"] == "hedgerow-clearance" for cookie in context.cookies())


def wait_until_cleared(page: Page) -> None:
    def asked() -> bool:
        page.wait_for_timeout(20)
        return is_cleared(page.context)

    wait_for("a clearance", asked)


def wait_until_answered(page: Page, watch: Watch, url: str) -> None:
    def answered() -> bool:
        page.wait_for_timeout(20)
        return any(one == url for one, _ in watch.answers)

    wait_for(f"the answer to {url}", answered)


def test_a_clearance_comes_by_itself(browser: Browser, site: Protect) -> None:
    with tab(browser) as page:
        watch = Watch(page.context, site.url)
        page.goto(site.url + "/0.html")
        wait_until_cleared(page)
        # The browser has the cookie a moment before it tells of the answer that brought it.
        wait_until_answered(page, watch, "/.hedgerow/clear")
        first = [url for url, _ in watch.answers]
        assert sum("/page.js" in url for url in first) == 1
        page.get_by_role("link", name="next").click()
        page.wait_for_selector("h1:text-is('Page 1')")
        page.wait_for_load_state("networkidle")
        second = [url for url, _ in watch.answers][len(first) :]
        own = [url for url in second if ".hedgerow" in url and not url.endswith("/page.js")]
        assert own == ["/.hedgerow/signs"], "who has a clearance calculates nothing"
        assert watch.complaints == []
        assert {status for _, status in watch.answers} <= {200, 204}
        assert page.url == site.url + "/1.html"


@pytest.mark.parametrize("name", POLICIES)
def test_policies_of_the_site_allow_it(browser: Browser, site: Protect, name: str) -> None:
    with tab(browser) as page:
        page.goto(f"{site.url}/{name}/0.html")
        wait_until_cleared(page)


def test_the_page_does_not_wait_for_the_script(browser: Browser, site: Protect) -> None:
    with tab(browser) as page:
        held = threading.Event()
        page.route("**/page.js", lambda route: (held.set(), page.wait_for_timeout(300), route.continue_()))
        page.goto(site.url + "/0.html", wait_until="load")
        ended = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        wait_until_cleared(page)
        assert held.is_set()
        (asked,) = page.evaluate(
            """performance.getEntriesByType("resource").filter(({ name }) => name.endsWith("/page.js"))
            .map(({ startTime }) => startTime)"""
        )
        assert 0 < ended <= asked


def test_the_page_is_parsed_before_its_style_sheet_arrives(browser: Browser, site: Protect) -> None:
    """A script that is no module waits for style sheets, and the end of the page waits for the script."""
    with tab(browser) as page:
        page.route("**/slow.css", lambda _: None)
        page.route(
            "**/2.html",
            lambda route: route.fulfill(
                body=route.fetch().text().replace("<title>", "<link rel=stylesheet href=/slow.css><title>")
            ),
        )
        page.goto(site.url + "/2.html", wait_until="domcontentloaded")
        assert page.evaluate("document.readyState") == "interactive"
        wait_for("the script", lambda: page.evaluate("!!document.querySelector('script[src$=\"/page.js\"]')"))


def test_a_page_that_takes_long_to_load_does_not_keep_the_script_away(browser: Browser, site: Protect) -> None:
    with tab(browser) as page:
        page.route("**/slow.css", lambda _: None)
        page.route(
            "**/2.html",
            lambda route: route.fulfill(
                body=route.fetch().text().replace("<h1>", "<link rel=stylesheet href=/slow.css media=print><h1>")
            ),
        )
        page.goto(site.url + "/2.html", wait_until="commit")
        wait_for("the script", lambda: page.evaluate("!!document.querySelector('script[src$=\"/page.js\"]')"))
        assert page.evaluate("document.readyState") == "interactive"


def test_a_page_in_the_background_waits(browser: Browser, site: Protect) -> None:
    with tab(browser) as page:
        page.add_init_script("Object.defineProperty(document, 'hidden', {get: () => !window.shown})")
        page.goto(site.url + "/0.html")
        page.wait_for_load_state("networkidle")
        assert not is_cleared(page.context)
        page.evaluate("window.shown = true; document.dispatchEvent(new Event('visibilitychange'))")
        wait_until_cleared(page)


def test_with_save_data_nothing_is_calculated(browser: Browser, site: Protect) -> None:
    with tab(browser) as page:
        page.add_init_script("Object.defineProperty(navigator, 'connection', {get: () => ({saveData: true})})")
        watch = Watch(page.context, site.url)
        page.goto(site.url + "/0.html")
        wait_for("the script", lambda: page.wait_for_timeout(20) or any("/page.js" in url for url, _ in watch.answers))
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(300)
        assert not any("/task" in url or "/solve.js" in url for url, _ in watch.answers)
        assert not is_cleared(page.context)


def test_over_plain_http(browser: Browser, site: Protect) -> None:
    """A page that came over http, from another machine, has no functions for hashes."""
    rules = "--host-resolver-rules=MAP plain.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    arguments = [one for one in ARGUMENTS if "host-resolver" not in one]
    with closing(browser.browser_type.launch(executable_path=CHROMIUM, args=[*arguments, rules])) as other:
        page = other.new_page()
        page.goto(f"http://plain.test:{site.url.rpartition(':')[2]}/0.html")
        assert page.evaluate("[isSecureContext, typeof crypto.subtle]") == [False, "undefined"]
        wait_until_cleared(page)
