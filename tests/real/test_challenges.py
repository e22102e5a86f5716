"""People solve challenges in a real browser: each kind, with and without script, by keyboard alone."""

from __future__ import annotations

import http.server
import os
import re
import subprocess
import threading
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from .browsing import Watch, tab
from .challenged import TOO_MANY, Challenged, axe_faults
from .conftest import missing
from .servers import clean_environment

AXE = Path(__file__).parent / "axe" / "axe.min.js"
SHOTS = os.environ.get("HEDGEROW_SHOTS", "")
QUIET = "[challenge]\nauto = false\n"


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.exists():
        missing("axe-core")
    return AXE.read_text("utf-8")


@pytest.fixture(scope="module")
def served():
    with Challenged("[responses]\ncontact = 'help@example.org'\nsite = 'Hedges'\n").serve() as site:
        yield site


@pytest.fixture(scope="module")
def quiet():
    """One that waits for a click."""
    with Challenged(QUIET).serve() as site:
        yield site


@pytest.fixture
def site(served):
    served.reset()
    return served


def arrived(page, path="/docs/") -> None:
    page.wait_for_selector(f"h1:text-is('{path}')")


def type_answer(page, site) -> None:
    source = page.locator("img, audio").first.get_attribute("src")
    page.locator("#typed").fill(site.answer_of(source))


def shoot(page, name) -> None:
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


def test_the_browser_calculates_and_nobody_clicks(browser, site):
    with tab(browser) as page:
        watch = Watch(page.context, site.url)
        answer = page.goto(site.url + "/docs/?page=2")
        assert answer.status == 403
        arrived(page)
        assert page.url == site.url + "/docs/?page=2"
        assert site.told == [("issued", "work", "first"), ("solved", "work")]
        cookies = {c["name"]: (c["httpOnly"], c["sameSite"]) for c in page.context.cookies()}
        assert cookies == {"hedgerow-clearance": (True, "Lax"), "hedgerow": (True, "Lax")}
        assert [said for said in watch.complaints if "403" not in said] == []
        assert all(url.startswith("/") for url, _ in watch.answers), "a third party was asked"


def test_of_several_tabs_one_calculates(browser, site):
    with tab(browser) as page:
        tabs = [page, *(page.context.new_page() for _ in range(5))]
        for number, one in enumerate(tabs):
            one.evaluate("url => { location.href = url; }", f"{site.url}/docs/{number}")
        for number, one in enumerate(tabs):
            arrived(one, f"/docs/{number}")
        assert site.told.count(("solved", "work")) == 1


def test_a_click(browser, quiet):
    quiet.reset()
    with tab(browser) as page:
        page.goto(quiet.url + "/docs/")
        page.wait_for_timeout(300)
        assert quiet.told == [("issued", "work", "first")]
        page.get_by_role("checkbox", name="I am a person").click()
        arrived(page)


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
@pytest.mark.parametrize(("kind", "button"), [("image", "Read letters in a picture"), ("audio", "Hear digits")])
def test_letters_and_digits(browser, quiet, kind, button, script):
    quiet.reset()
    with tab(browser, java_script_enabled=script) as page:
        page.goto(quiet.url + "/docs/?a=1")
        page.get_by_role("button", name=button).click()
        type_answer(page, quiet)
        page.get_by_role("button", name="Continue").click()
        arrived(page)
        assert page.url == quiet.url + "/docs/?a=1"
        assert quiet.told[-1] == ("solved", kind)


def test_where_our_script_does_not_come_the_page_says_so(browser, site):
    with tab(browser) as page:
        page.route("**/challenge.js", lambda route: route.abort())
        page.goto(site.url + "/docs/")
        page.get_by_text("needs JavaScript").wait_for()


def test_without_script_the_page_says_so(browser, site):
    with tab(browser, java_script_enabled=False) as page:
        page.goto(site.url + "/docs/")
        page.get_by_text("needs JavaScript").wait_for()
        shoot(page, "no-script")


def test_the_recording_can_be_played(browser, quiet):
    quiet.reset()
    with tab(browser) as page:
        page.goto(quiet.url + "/docs/")
        page.get_by_role("button", name="Hear digits").click()
        page.wait_for_function("() => document.querySelector('audio').readyState >= 2")
        assert 5 < page.evaluate("() => document.querySelector('audio').duration") < 20


def test_by_keyboard_alone(browser, quiet):
    """Image, wrong; then right."""
    quiet.reset()
    with tab(browser) as page:
        page.goto(quiet.url + "/docs/")
        page.wait_for_selector("input[type=checkbox]")
        for _ in range(10):
            page.keyboard.press("Tab")
            if page.evaluate("() => document.activeElement.value") == "image":
                break
        page.keyboard.press("Enter")
        page.wait_for_selector("#typed")
        assert page.evaluate("() => document.activeElement.id") == "typed"
        page.keyboard.type("wrong1")
        page.keyboard.press("Enter")
        page.wait_for_selector("[role=alert]")
        assert page.evaluate("() => document.activeElement.id") == "typed"
        page.keyboard.type(quiet.answer_of(page.locator("img").get_attribute("src")).lower())
        page.keyboard.press("Enter")
        arrived(page)
        assert ("failed", "wrong") in quiet.told


def test_the_calculation_by_keyboard_alone(browser, quiet):
    quiet.reset()
    with tab(browser) as page:
        page.goto(quiet.url + "/docs/")
        page.wait_for_selector("input[type=checkbox]")
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.type") == "checkbox"
        page.keyboard.press("Space")
        arrived(page)


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_form_arrives_as_it_was(browser, site, script):
    """The same bytes as without Hedgerow in between."""
    got = []
    for challenged in (False, True):
        site.reset()
        site.solved_ = True
        with tab(browser, java_script_enabled=script) as page:
            page.goto(site.url + "/write")
            site.solved_ = not challenged
            page.locator("#plain button").click()
            if challenged and not script:
                page.get_by_role("button", name="Read letters in a picture").click()
                type_answer(page, site)
                page.get_by_role("button", name="Continue").click()
                page.get_by_role("button", name="Send it on").click()
            arrived(page, "/comment")
        got.append(site.sent[-1])
        assert len(site.sent) == 1
    assert got[0] == got[1]
    assert parse_qsl(got[1][2].decode())[:2] == [("who", "Änne & Bob"), ("text", "one\r\ntwo")]


def test_a_form_in_parts_arrives_as_it_was(browser, site):
    got = []
    for challenged in (False, True):
        site.reset()
        site.solved_ = True
        with tab(browser) as page:
            page.goto(site.url + "/write")
            site.solved_ = not challenged
            page.locator("#parts button").click()
            arrived(page, "/upload")
        _, media, body = site.sent[-1]
        got.append(body.replace(media.partition(b"boundary=")[2], b"boundary"))
    assert got[0] == got[1]


def test_a_file_must_be_sent_again_and_the_page_says_so(browser, site, tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    with tab(browser) as page:
        site.solved_ = True
        page.goto(site.url + "/write")
        site.solved_ = False
        page.locator("input[type=file]").set_input_files(tmp_path / "a.txt")
        page.locator("#parts button").click()
        page.get_by_text("Please go back and send it again").wait_for()
        shoot(page, "sent-again")
        page.get_by_role("link", name="Back to the site").click()
        arrived(page, "Write")
        assert site.sent == []


def test_a_form_of_another_site_is_not_sent_on(browser, site):
    """Else a page anywhere could have us send it with the visitor's cookies."""
    with tab(browser) as page:
        page.goto("about:blank")
        page.set_content(f"<form method=post action='{site.url}/comment'><input name=a value=1></form>")
        page.evaluate("() => document.forms[0].submit()")
        page.get_by_text("Please go back and send it again").wait_for()
        assert site.sent == []


def test_a_site_that_sends_people_on_to_another(browser):
    """A log-in elsewhere: browsers hold the redirects after a form to the policy of the page it stood on."""
    with Challenged().serve() as login, Challenged("[challenge]\n", elsewhere=login.url + "/there").serve() as site:
        login.solved_ = True
        with tab(browser) as page:
            page.goto(site.url + "/login")
            arrived(page, "/there")


def test_a_script_of_the_page_gets_no_page(browser, site):
    with tab(browser) as page:
        site.solved_ = True
        page.goto(site.url + "/docs/")
        site.solved_ = False
        status, media, wait = page.evaluate(
            "async () => { const got = await fetch('/api/list'); "
            "return [got.status, got.headers.get('content-type'), got.headers.get('retry-after')]; }"
        )
        assert (status, media, wait) == (429, "text/plain; charset=utf-8", "60")


def test_tools_get_no_page(site, program, tmp_path):
    """curl, git and who only wants the head."""
    for options in ([], ["-I"], ["-H", "Accept: application/json"]):
        said = subprocess.run(
            [program("curl"), "-s", "-i", *options, site.url + "/project.git/info/refs"],
            capture_output=True,
            check=True,
        ).stdout
        assert said.startswith(b"HTTP/1.1 429")
        assert b"retry-after: 60" in said
        assert b"<html" not in said.lower()
    cloned = subprocess.run(
        [program("git"), "clone", site.url + "/project.git", str(tmp_path / "clone")],
        capture_output=True,
        check=False,
        env=clean_environment(GIT_TERMINAL_PROMPT="0"),
    )
    assert b"429" in cloned.stderr
    assert not site.told


def test_the_external_provider_and_its_outage(browser):
    """A stand-in of the provider's script; its siteverify is not there."""
    with Challenged().serve() as provider:
        provider.solved_ = True
        text = (
            "[challenge]\nkinds = ['external', 'image']\n[challenge.external]\nsite_key = 'k'\nsecret = 's'\n"
            f"script = '{provider.url}/none.js'\nverify = 'http://127.0.0.1:9/siteverify'\n"
        )
        with Challenged(text).serve() as site, tab(browser) as page:
            page.route(
                "**/none.js",
                lambda route: route.fulfill(
                    content_type="text/javascript",
                    body="const box = document.querySelector('.cf-turnstile');"
                    "box.innerHTML = '<input type=hidden name=cf-turnstile-response value=token>';"
                    "window[box.dataset.callback]('token');",
                ),
            )
            page.goto(site.url + "/docs/")
            page.get_by_text("cannot be reached").wait_for()
            type_answer(page, site)
            page.get_by_role("button", name="Continue").click()
            arrived(page)
            assert ("failed", "outage") in site.told


WIDGET = (
    "const box = document.querySelector('.cf-turnstile');"
    "box.innerHTML = '<input type=hidden name=cf-turnstile-response value=token>';"
    "setTimeout(() => window[box.dataset.callback]('token'), 0);"
)


class SiteVerify(http.server.BaseHTTPRequestHandler):
    """The provider's stand-in: its script, and a siteverify that knows one answer."""

    def do_GET(self) -> None:
        self._say(b"text/javascript", WIDGET.encode())

    def do_POST(self) -> None:
        sent = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
        right = sent == {"secret": "s", "response": "token", "remoteip": "127.0.0.1"}
        self._say(b"application/json", b'{"success": %b}' % (b"true" if right else b"false"))

    def _say(self, media: bytes, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", media.decode())
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_the_external_provider_confirms(browser):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), SiteVerify) as provider:
        thread = threading.Thread(target=provider.serve_forever, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{provider.server_address[1]}"
        text = (
            "[challenge]\nkinds = ['external', 'image']\n[challenge.external]\nsite_key = 'k'\nsecret = 's'\n"
            f"script = '{url}/api.js'\nverify = '{url}/siteverify'\n"
        )
        with Challenged(text).serve() as site, tab(browser) as page:
            page.goto(site.url + "/docs/")
            arrived(page)
            assert site.told == [("issued", "external", "first"), ("solved", "external")]
        provider.shutdown()
        thread.join()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_fault_for_axe_on_the_rarer_pages(browser, axe, scheme, tmp_path):
    """Where something could not be kept, where a provider is named, and the one that calculates by itself."""
    (tmp_path / "a.txt").write_text("hello")
    text = (
        "[challenge]\nauto = false\nkinds = ['work', 'external', 'image']\n[challenge.external]\nsite_key = 'k'\n"
        "secret = 's'\nscript = 'http://127.0.0.1:9/api.js'\n"
    )
    faults = []
    with Challenged(text).serve() as site, tab(browser, color_scheme=scheme) as page:

        def look(name) -> None:
            shoot(page, f"{name}-{scheme}")
            faults.extend(f"{name}: {fault}" for fault in axe_faults(page, axe))

        site.solved_ = True
        page.goto(site.url + "/write")
        site.solved_ = False
        page.locator("input[type=file]").set_input_files(tmp_path / "a.txt")
        page.locator("#parts button").click()
        page.wait_for_selector("input[type=checkbox]")
        look("lost")
        page.locator("button[value=external]").click()
        page.get_by_text("cannot be reached").wait_for()
        look("external")
        page.locator("button[value=image]").click()
        type_answer(page, site)
        page.locator("button.main").click()
        page.get_by_text("Please go back").wait_for()
        look("sent-again")
    # So hard that the number is not found while it is looked at, not even by chance.
    with (
        Challenged("[challenge]\ndifficulty = 1_000_000_000_000\nhardest = 1_000_000_000_000\n").serve() as site,
        tab(browser, color_scheme=scheme) as page,
    ):
        page.goto(site.url + "/docs/")
        page.get_by_text("Calculating").first.wait_for()
        look("calculating")
    assert not faults, "\n".join(faults)


def test_an_external_script_that_does_not_load(browser):
    text = (
        "[challenge]\nkinds = ['external', 'image']\n[challenge.external]\nsite_key = 'k'\nsecret = 's'\n"
        "script = 'http://127.0.0.1:9/api.js'\n"
    )
    with Challenged(text).serve() as site, tab(browser) as page:
        page.goto(site.url + "/docs/")
        page.get_by_text("cannot be reached").wait_for()
        assert page.evaluate("() => document.activeElement.value") == "image"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "de", "fr", "es", "ja", "zh"])
def test_no_serious_fault_for_axe(browser, quiet, axe, scheme, language):
    faults = []
    quiet.reset()
    with tab(browser, color_scheme=scheme, locale=language) as page:

        def look(name) -> None:
            shoot(page, f"{name}-{language}-{scheme}")
            faults.extend(f"{name}: {fault}" for fault in axe_faults(page, axe))

        page.goto(quiet.url + "/docs/")
        page.wait_for_selector("input[type=checkbox]")
        look("work")
        assert page.evaluate("() => document.documentElement.lang") == language
        page.locator("button[value=image]").click()
        page.wait_for_selector("img")
        look("image")
        page.locator("#typed").fill("wrong")
        page.locator("button.main").click()
        page.wait_for_selector("[role=alert]")
        look("wrong")
        page.locator("button[value=audio]").click()
        page.wait_for_selector("audio")
        look("audio")
        quiet.decision = TOO_MANY
        page.goto(quiet.url + "/docs/")
        look("blocked")
    with tab(browser, color_scheme=scheme, locale=language, java_script_enabled=True) as page:
        quiet.reset()
        quiet.solved_ = True
        page.goto(quiet.url + "/write")
        quiet.solved_ = False
        page.locator("#plain button").click()
        page.locator("button[value=image]").click()
        type_answer(page, quiet)
        # Held at the page that sends it on.
        page.route("**/challenge.js", lambda route: route.abort())
        page.locator("button.main").click()
        page.wait_for_selector("#continue")
        look("onward")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("width", [320, 500])
def test_at_200_percent_and_on_a_small_screen_nothing_is_cut_off(browser, quiet, width):
    quiet.reset()
    with tab(browser) as page:
        page.set_viewport_size({"width": width, "height": 400})
        page.goto(quiet.url + "/docs/")
        page.wait_for_selector("input[type=checkbox]")
        for kind in ("image", "audio"):
            page.locator(f"button[value={kind}]").click()
            page.wait_for_selector("#typed")
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
            shoot(page, f"narrow-{kind}-{width}")


def test_the_page_is_small(browser, quiet):
    quiet.reset()
    with tab(browser) as page:
        sizes = {}
        page.on("response", lambda r: sizes.__setitem__(re.sub(r".*/", "", r.url), r))
        page.goto(quiet.url + "/docs/")
        page.wait_for_selector("input[type=checkbox]")
        assert len(sizes[""].body()) < 9_000
        assert all(response.url.startswith((quiet.url, "data:")) for response in sizes.values())
