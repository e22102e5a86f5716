"""
A page of another site does what it can to have its reader challenged or blocked. Then the reader goes on undisturbed.

In real Chromium and Firefox: what a page can make a browser send, and what the browser says of it, is theirs to decide.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import sync_playwright

from driving import marked_links_in, traps_in

from . import browsing
from .conftest import missing
from .crawling import CHROME
from .firefox import Firefox
from .servers import Nginx, Protect

ELSEWHERE = "127.0.0.3"
"""An address of this machine that is another site for browsers: not 127.0.0.1, whatever the port."""
NAME, OTHER_NAME = "wiki.test", "evil.test"
"""Names of both sites, for browsers alone: under a name that is not local they say over plain http nothing of sites."""
PAGES = 80
READ = 8
_PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Page {n}</title>
<link rel="icon" href="data:,"></head><body><h1>Page {n}</h1>{links}</body></html>"""
_ATTACK = """<!DOCTYPE html><html><head><title>Attack</title><link rel="icon" href="data:,">
<style>{styles}</style>{heads}</head><body>{elements}
<script>
const add = (name, attributes) => document.body.append(Object.assign(document.createElement(name), attributes));
for (const url of {urls}) {{
  fetch(url, {{mode: "no-cors"}}).catch(() => 0);
  fetch(url, {{mode: "no-cors", credentials: "include", method: "POST", body: "a=1"}}).catch(() => 0);
  fetch(url).catch(() => 0);
  navigator.sendBeacon(url, "a=1");
  add("img", {{src: url}});
  add("script", {{src: url}});
  add("iframe", {{src: url}});
}}
for (const form of document.forms) form.submit();
setTimeout(() => location.href = {last}, 4000);
</script></body></html>"""


def write_site(folder: Path) -> Path:
    chance = random.Random(5)
    for n in range(PAGES):
        others = chance.sample([m for m in range(PAGES) if m != n], 6)
        links = "".join(f'<p>Words, <a href="/{m}.html">to page {m}</a>.</p>' for m in others)
        (folder / f"{n}.html").write_text(_PAGE.format(n=n, links=links))
    return folder


def attack_page(url: str, marks: list[str], traps: list[str], own: str) -> str:
    """Fifty ways to make a browser ask for something; the other site is at *own*, and redirects from /to?..."""
    plain = [f"{url}/{n}.html" for n in range(40)]
    wrong = [f"{url}/~{n:03}{'a' * 60}" for n in range(12)] + [f"{url}/1.html?~={'A' * 23}.{n:04}" for n in range(6)]
    issued = [url + link for link in (*marks, *traps)]
    moved = [f"{own}/to?{address}" for address in (*plain[:4], *issued[:6])]
    everything = [*plain, *wrong, *issued, *moved]
    tags = [
        '<img src="{}" alt="">', '<iframe src="{}"></iframe>', '<object data="{}"></object>', '<embed src="{}">',
        '<video src="{}"></video>', '<audio src="{}"></audio>', '<script src="{}"></script>',
        '<img srcset="{} 1x" alt="">',
        '<input type="image" src="{}">', '<picture><source srcset="{}"><img alt=""></picture>',
        '<iframe sandbox src="{}"></iframe>', '<iframe referrerpolicy="no-referrer" src="{}"></iframe>',
        '<img referrerpolicy="no-referrer" src="{}" alt="">', '<video poster="{}"></video>',
        '<svg><image href="{}"/></svg>', '<table background="{}"><tr><td></table>',
    ]  # fmt: skip
    elements = [tags[number % len(tags)].format(address) for number, address in enumerate(everything)]
    frames = "".join(f'<iframe name="f{n}"></iframe>' for n in range(6))
    forms = "".join(
        f'<form action="{address}" method="{("post", "get")[n % 2]}" target="f{n}"><input name="a" value="1"></form>'
        for n, address in enumerate([*plain[:3], *issued[:2], f"{url}/.hedgerow/answer"])
    )
    relations = ["prefetch", "preload", "prerender", "stylesheet", "icon", "manifest", "modulepreload", "preconnect"]
    heads = "".join(
        f'<link rel="{relations[n % len(relations)]}" href="{address}" as="image">'
        for n, address in enumerate(everything[::2])
    )
    styles = "".join(f'@import url("{address}");' for address in everything[:6])
    styles += "".join(f'#x{n} {{ background: url("{address}"); }}' for n, address in enumerate(everything[:20]))
    elements += [f'<i id="x{n}">x</i>' for n in range(20)]
    return _ATTACK.format(
        styles=styles, heads=heads, elements="".join(elements) + frames + forms, urls=json.dumps(everything),
        last=json.dumps(f"{url}/60.html"),
    )  # fmt: skip


@contextlib.contextmanager
def other_site(address: str = ELSEWHERE) -> Iterator[ThreadingHTTPServer]:
    """A site at another address, with one page, that redirects from `/to?ADDRESS`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            target = self.path.removeprefix("/to?")
            body = getattr(self.server, "page", b"") if self.path == "/" else b""
            self.send_response(200 if target == self.path else 302)
            if target != self.path:
                self.send_header("Location", target)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((address, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def harvested(url: str, address: str) -> tuple[list[str], list[str]]:
    """The marked and the hidden links that a client at *address* is given."""
    transport = httpx.HTTPTransport(local_address=address)
    with httpx.Client(transport=transport, headers=CHROME, timeout=60, trust_env=False) as client:
        body = client.get(url + "/50.html").content
    return marked_links_in(body), traps_in(body)


@pytest.fixture
def hedgerow(nginx: Callable[..., Nginx], protect: Callable[..., Protect], tmp_path: Path) -> Protect:
    return protect(nginx(write_site(tmp_path)).url)


@pytest.fixture
def attack(hedgerow: Protect, address: Callable[[], str]) -> Iterator[str]:
    """The address of the other site's page. Its owner was given links, also at the victim's own address."""
    marks, traps = harvested(hedgerow.url, address())
    _, own_traps = harvested(hedgerow.url, "127.0.0.1")
    assert marks
    assert traps
    assert own_traps
    with other_site() as server:
        own = f"http://{ELSEWHERE}:{server.server_port}"
        server.page = attack_page(hedgerow.url, marks, [*traps, *own_traps], own).encode()  # type: ignore[attr-defined]
        yield own + "/"


@pytest.fixture
def attack_over_http(hedgerow: Protect, address: Callable[[], str]) -> Iterator[str]:
    """The same, at names that are not local. What the owner gets at the victim's own address could be the victim's."""
    marks, traps = harvested(hedgerow.url, address())
    with other_site("127.0.0.1") as server:
        own, site = f"http://{OTHER_NAME}:{server.server_port}", hedgerow.url.replace("127.0.0.1", NAME)
        server.page = attack_page(site, marks, traps, own).encode()  # type: ignore[attr-defined]
        yield own + "/"


def check_visits(hedgerow: Protect, signs: frozenset[str] = frozenset({"elsewhere"})) -> None:
    """The attack was tried, as visits with one of *signs* show, and of the victim's own visits each one passed."""
    assert hedgerow.blocked() == {}
    hedgerow.stop()
    visits = [visit for visit in hedgerow.visits() if visit["address"] == "127.0.0.1"]
    caused = [visit for visit in visits if signs & {*visit["signs"].split()} or visit["prefetch"]]
    own = [visit for visit in visits if visit not in caused]
    print(len(caused), "visits caused by the other site,", len(own), "others")  # noqa: T201
    assert len(caused) >= 50
    assert [(v["target"], v["action"], v["code"], v["signs"]) for v in own if v["action"] != "pass"] == []


def read_in_chromium(attack: str, rules: str, pages: int = READ) -> None:
    """Open the other site's page, and read pages of the site that it leads to. *rules* say where names are."""
    if not Path(browsing.CHROMIUM).exists():
        missing("chromium")
    arguments = [one for one in browsing.ARGUMENTS if "host-resolver-rules" not in one]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browsing.CHROMIUM, args=[*arguments, f"--host-resolver-rules={rules}"]
        )
        with browsing.tab(browser) as page:
            page.goto(attack, wait_until="commit")
            page.wait_for_selector("h1:text-is('Page 60')")
            chance = random.Random(3)
            for _ in range(pages):
                texts = page.locator("p > a").all_inner_texts()
                name = chance.choice([text for text in texts if text.startswith("to page")])
                page.get_by_role("link", name=name, exact=True).first.click()
                page.wait_for_selector(f"h1:text-is('Page {name.rpartition(' ')[2]}')")
                time.sleep(0.5 + chance.random())
        browser.close()


def read_in_firefox(attack: str, firefox: Firefox, pages: int = READ) -> None:
    try:
        with firefox.tab() as tab:
            # Not until everything is loaded: some of it never is.
            firefox.call("browsingContext.navigate", context=tab.context, url=attack, wait="none")
            tab.wait_for_title("Page 60")
            chance = random.Random(3)
            for _ in range(pages):
                # A hidden link may have the same text.
                seen = "[...document.querySelectorAll('p > a')].filter(link => link.getClientRects().length)"
                name = tab.evaluate(f"(link => (link.id = 'next', link.textContent))({seen}[{chance.randrange(5)}])")
                tab.click_element("#next")
                tab.wait_for_title("P" + name[4:])
                time.sleep(0.5 + chance.random())
    finally:
        firefox.end()


def test_chromium(hedgerow: Protect, attack: str) -> None:
    read_in_chromium(attack, f"MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE {ELSEWHERE}")
    check_visits(hedgerow)


def test_firefox(hedgerow: Protect, attack: str, program: Callable[[str], str], tmp_path: Path) -> None:
    preferences = {"network.proxy.no_proxies_on": f"127.0.0.1, {ELSEWHERE}"}
    read_in_firefox(attack, Firefox(program("firefox-esr"), tmp_path / "firefox" / "profile", preferences))
    check_visits(hedgerow)


def test_chromium_over_plain_http(hedgerow: Protect, attack_over_http: str) -> None:
    read_in_chromium(attack_over_http, f"MAP {NAME} 127.0.0.1, MAP {OTHER_NAME} 127.0.0.1, MAP * ~NOTFOUND", READ // 2)
    check_visits(hedgerow, frozenset({"elsewhere", "arrival"}))


def test_firefox_over_plain_http(
    hedgerow: Protect, attack_over_http: str, program: Callable[[str], str], tmp_path: Path
) -> None:
    preferences = {
        "network.proxy.no_proxies_on": f"127.0.0.1, {NAME}, {OTHER_NAME}",
        "network.dns.localDomains": f"{NAME},{OTHER_NAME}",
    }
    firefox = Firefox(program("firefox-esr"), tmp_path / "firefox" / "profile", preferences)
    read_in_firefox(attack_over_http, firefox, READ // 2)
    check_visits(hedgerow, frozenset({"elsewhere", "arrival"}))
