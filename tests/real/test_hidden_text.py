"""
Hidden links with text, in Chromium and Firefox: people meet them nowhere.

Not on the screen, by keyboard, in the accessibility tree, in a search of the page, on paper, in what they copy, in
reader view; also without scripts, and without the style rule that hides them. Every form of hidden link is held against
the same page without Hedgerow.
"""

from __future__ import annotations

import random
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from driving import KEY, bait_rewriter, form_of, texts_in, traps_in
from hedgerow.markers.token import Key, TokenCodec, page_digest, visitor_digest
from hedgerow.traps.bait import Bait

from . import browsing
from .conftest import DOCUMENTATION, missing
from .firefox import Firefox, Tab
from .servers import Nginx, Protect, wait_for
from .test_real_pages import QT

SEAL = TokenCodec([Key(1, KEY, 0.0)])
FORMS = {
    "hidden": '<span hidden><a href="',
    "datalist with aria-hidden": '<datalist aria-hidden="true"><a href="',
    "noscript": '<noscript><a href="',
    "popover": '<span popover style="visibility:hidden"><a href="',
    "datalist": '<datalist style="visibility:hidden"><a href="',
    "popover as a dialog": '<span popover role="dialog" aria-modal="true"><a href="',
    "datalist as a dialog": '<datalist role="dialog" aria-modal="true"><a href="',
}
WORDS = ["alder ash", "beech birch", "cedar cherry", "elder elm", "fir fig", "hazel holly", "larch lime", "maple may"]
"""Texts of links. What a hidden link makes of two of them stands nowhere else in the page."""
SENTENCE = "All about hedges and those who live in them, in every season of the year. "
NOTES = '<!DOCTYPE html><title>Notes</title><textarea></textarea><div contenteditable style="height: 2em"></div>'


def article() -> str:
    links = [f'<a href="/{number}.html">{text}</a>' for number, text in enumerate(WORDS)]
    paragraphs = "".join(f"<p>{SENTENCE * 6}See {link} and more.</p>" for link in links[:4])
    rows = "".join(f"<tr><td>{link}</td><td>1</td></tr>" for link in links[4:6])
    return (
        "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>Hedges</title></head><body>"
        f"<h1>Hedges</h1><ul><li>{links[6]}</li><li>{links[7]}</li></ul><article><h2>Of {links[0]}</h2>"
        f"{paragraphs}<table>{rows}</table><pre>{links[2]} = 1</pre></article></body></html>"
    )


@pytest.fixture(scope="module")
def site(nginx: Callable[..., Nginx], tmp_path_factory: pytest.TempPathFactory) -> Nginx:
    root = tmp_path_factory.mktemp("site")
    (root / "article.html").write_text(article().replace("</body>", "<script>let x = 1</script></body>"))
    (root / "plain.html").write_text(article())
    (root / "notes.html").write_text(NOTES)
    return nginx(root, more="location = /favicon.ico { return 204; }\n")


@pytest.fixture(scope="module")
def hedgerow(protect: Callable[..., Protect], site: Nginx) -> Protect:
    # All tests come from one address, and most tabs are closed before they have a clearance.
    settings = "[traps]\nplacement = 'links'\nevery = 1\n[containment]\nenabled = false\n[policy]\nsuspects = 'pass'\n"
    return protect(site.url, settings=settings)


@pytest.fixture(scope="module")
def firefox(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    started = Firefox(program("firefox-esr"), tmp_path_factory.mktemp("firefox") / "profile", {})
    yield started
    started.end()


@pytest.fixture(scope="module")
def firefox_without_scripts(
    program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Firefox]:
    folder = tmp_path_factory.mktemp("firefox") / "profile"
    started = Firefox(program("firefox-esr"), folder, {"javascript.enabled": False})
    yield started
    started.end()


@pytest.fixture(scope="module")
def readability(program: Callable[[str], str]) -> str:
    """The scripts by which Firefox makes its reader view: one reads the serialised page, one chooses the text."""
    folder = Path(program("firefox-esr")).resolve().parent
    with zipfile.ZipFile(folder / "omni.ja") as packed:
        names = [name for name in packed.namelist() if name.endswith(("/Readability.js", "/JSDOMParser.js"))]
        assert len(names) == 2
        return "\n".join(packed.read(name).decode() for name in names)


@pytest.fixture(params=FORMS)
def target(request: pytest.FixtureRequest) -> str:
    """An address of the article at which hidden links have this form for the browser's address."""
    visitor = visitor_digest("127.0.0.1")
    for number in range(100):
        found = f"/{'plain' if 'dialog' in request.param else 'article'}.html?{number}"
        wrappers = Bait(visitor, page_digest(found), has_text=True).wrappers
        assert wrappers is not None
        if FORMS[request.param] in [form_of(before) for before, _ in wrappers]:
            return found
    raise AssertionError(request.param)


def hidden_texts(source: bytes, hedgerow: Protect) -> list[str]:
    """The texts of the hidden links of a page, which stand nowhere else in it."""
    texts = texts_in(source)
    assert len(texts) > 5, source
    assert not any(text in article() for text in texts)
    # In a heading, a table and an example there are some without text, if a script may read them.
    assert (len(traps_in(source)) > len(texts) + 3) == (b"let x = 1" in source)
    assert all(hedgerow.is_trap(link) for link in traps_in(source))
    return texts


# ---- Chromium


def goto(page: Page, url: str) -> bytes:
    answer = page.goto(url)
    assert answer is not None
    assert answer.status == 200
    return bytes(answer.body())


def chromium_copy(page: Page, notes: str) -> tuple[str, str]:
    """What a person copies who selects all: as text, and as HTML."""
    page.keyboard.press("Control+A")
    page.keyboard.press("Control+C")
    page.goto(notes)
    for selector in ("textarea", "[contenteditable]"):
        page.locator(selector).click()
        page.keyboard.press("Control+V")
    return page.locator("textarea").input_value(), page.locator("[contenteditable]").inner_html()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_chromium(scripts: bool, target: str, browser: Browser, site: Nginx, hedgerow: Protect, tmp_path: Path) -> None:
    options = {"java_script_enabled": scripts}
    with browsing.tab(browser, **options) as bare, browsing.tab(browser, **options) as protected:
        goto(bare, site.url + target)
        texts = hidden_texts(goto(protected, hedgerow.url + target), hedgerow)
        pictures = [page.screenshot(full_page=True) for page in (bare, protected)]
        browsing.assert_same_picture(*pictures, "the page", tmp_path)
        assert protected.inner_text("body") == bare.inner_text("body")
        links, found = browsing.accessible_links(protected, hedgerow.is_trap)
        assert found == []
        assert links == browsing.accessible_links(bare)[0]
        stops = [hedgerow.plain(stop).removeprefix(hedgerow.url) for stop in browsing.tab_stops(protected)]
        assert stops == [stop.removeprefix(site.url) for stop in browsing.tab_stops(bare)]
        assert len(stops) > len(WORDS)
        for text in texts:
            assert not protected.evaluate("text => find(text, false, false, true)", text), text
        assert protected.evaluate("find('cedar cherry', false, false, true)")
        printed = [_drawn(page.pdf(tagged=False)) for page in (bare, protected)]
        assert printed[0] == printed[1]


def test_copied_from_chromium(target: str, browser: Browser, site: Nginx, hedgerow: Protect) -> None:
    with browsing.tab(browser) as page:
        goto(page, site.url + target)
        bare, _ = chromium_copy(page, site.url + "/notes.html")
        texts = hidden_texts(goto(page, hedgerow.url + target), hedgerow)
        copied, markup = chromium_copy(page, hedgerow.url + "/notes.html")
    assert copied == bare
    assert "cedar cherry" in copied
    assert "cedar cherry" in markup
    assert not [text for text in texts if text in markup]


def test_chromium_without_the_rule_that_hides_them(
    target: str, browser: Browser, site: Nginx, hedgerow: Protect, tmp_path: Path
) -> None:
    """As when a reader switches style sheets off, or a script copies a part of the page elsewhere."""
    with browsing.tab(browser) as bare, browsing.tab(browser) as protected:
        goto(bare, site.url + target)
        goto(protected, hedgerow.url + target)
        assert protected.evaluate("document.querySelectorAll('style').length") == 1
        protected.evaluate("document.querySelector('style').remove()")
        assert protected.inner_text("body") == bare.inner_text("body")
        browsing.assert_same_picture(
            bare.screenshot(full_page=True), protected.screenshot(full_page=True), "the page", tmp_path
        )


def test_an_extension_that_shows_what_is_for_clients_without_scripts(
    target: str, browser: Browser, site: Nginx, hedgerow: Protect, tmp_path: Path
) -> None:
    """NoScript and uBlock Origin do so where they block scripts; the attributes of the element are lost."""
    shown = """for (const one of document.querySelectorAll("noscript")) {
        const other = document.createElement("span");
        other.innerHTML = one.textContent;
        one.replaceWith(other);
    }"""
    with browsing.tab(browser) as bare, browsing.tab(browser) as protected:
        for page, url in ((bare, site.url), (protected, hedgerow.url)):
            goto(page, url + target)
            page.evaluate(shown)
        browsing.assert_same_picture(
            bare.screenshot(full_page=True), protected.screenshot(full_page=True), "the page", tmp_path
        )


def _drawn(pdf: bytes) -> list[bytes]:
    """What a PDF draws, without the links."""
    starts = [found.end() for found in re.finditer(rb"FlateDecode[^>]*>>\s*stream\r?\n", pdf)]
    parts = [zlib.decompressobj().decompress(pdf[start:]) for start in starts]
    found = [part for part in parts if re.search(rb"\bT[jJ]\b", part)]
    assert found
    return found


# ---- Reader view


def test_what_reader_view_makes_of_the_page_on_the_screen(
    target: str, browser: Browser, site: Nginx, hedgerow: Protect, readability: str
) -> None:
    read = 'new Readability(document.cloneNode(true)).parse().content.replaceAll(/href="[^"]*"/g, \'\')'
    with browsing.tab(browser) as bare, browsing.tab(browser) as protected:
        goto(bare, site.url + target)
        texts = hidden_texts(goto(protected, hedgerow.url + target), hedgerow)
        found = [page.evaluate(f"() => {{ {readability}\nreturn {read} }}") for page in (bare, protected)]
    assert found[0] == found[1]
    assert "cedar cherry" in found[1]
    assert not [text for text in texts if text in found[1]]


@pytest.mark.parametrize("has_text", [False, True])
def test_reader_view_makes_the_same_of_real_pages(has_text: bool, browser: Browser, readability: str) -> None:
    """Hidden links with text must not change which parts of a page it takes for the article, either."""
    pages = [page for folder in (DOCUMENTATION, QT) if folder.exists() for page in sorted(folder.rglob("*.html"))]
    if not pages:
        missing("documentation")
    texts = 0
    read = """html => new Readability(new DOMParser().parseFromString(html, "text/html")).parse()?.content
        .replaceAll(/href="[^"]*"/g, "")"""
    with browsing.tab(browser) as tab:
        tab.evaluate(f"() => {{ {readability}\nwindow.Readability = Readability }}")
        for path in random.Random(2).sample(pages, 100):
            page = path.read_bytes()
            place = path.name.encode()[:6].ljust(6)
            written = bait_rewriter(SEAL, b"visitr", place, has_text=has_text).feed(page, final=True)
            texts += len(texts_in(written))
            before, after = (tab.evaluate(read, source.decode("utf-8", "replace")) for source in (page, written))
            assert before == after, path
    assert (texts > 300) is has_text


# ---- Firefox


def firefox_texts(tab: Tab, hedgerow: Protect) -> list[str]:
    return hidden_texts(tab.evaluate("document.documentElement.outerHTML").encode(), hedgerow)


def test_firefox(target: str, firefox: Firefox, site: Nginx, hedgerow: Protect, tmp_path: Path) -> None:
    with firefox.tab() as tab:
        seen = [_seen(tab, url + target) for url in (site.url, hedgerow.url)]
        texts = firefox_texts(tab, hedgerow)
        for text in texts:
            assert not tab.evaluate(f"find({text!r}, false, false, true)"), text
        assert tab.evaluate("find('cedar cherry', false, false, true)")
        tab.reload()
        tab.evaluate("document.querySelector('style').remove()")
        browsing.assert_same_picture(seen[0][0], tab.screenshot(), "the page without the rule", tmp_path)
    browsing.assert_same_picture(seen[0][0], seen[1][0], "the page", tmp_path)
    assert seen[0][1:] == seen[1][1:]
    assert len(seen[1][2]) > len(WORDS)


def _seen(tab: Tab, url: str) -> tuple[bytes, str, list[str], list[bytes]]:
    """What a person sees of a page: a picture, its text, where the Tab key leads, and the page on paper."""
    tab.goto(url)
    picture, text = tab.screenshot(), tab.evaluate("document.body.innerText")
    # By their numbers, because the last one may be reached twice on the way to the browser's own buttons.
    stops: dict[int, str] = {}
    for _ in range(3 * len(WORDS)):
        tab.press("\ue004")
        here = "document.activeElement"
        number, address = tab.evaluate(f"[[...document.links].indexOf({here}), {here}.pathname || '']")
        if number < 0:
            break
        stops[number] = address
    return picture, text, list(stops.values()), _drawn(tab.print())


def test_links_that_firefox_tells_a_screen_reader(
    target: str, firefox: Firefox, site: Nginx, hedgerow: Protect
) -> None:
    with firefox.tab() as tab:
        found = []
        for url in (site.url, hedgerow.url):
            tab.goto(url + target)
            found.append(tab.accessible_links())
    assert len(found[0]) > len(WORDS)
    assert found[0] == found[1]


def test_firefox_without_scripts(
    target: str, firefox_without_scripts: Firefox, site: Nginx, hedgerow: Protect, tmp_path: Path
) -> None:
    pictures = []
    with firefox_without_scripts.tab() as tab:
        for url in (site.url, hedgerow.url):
            tab.goto(url + target)
            pictures.append(tab.screenshot())
    browsing.assert_same_picture(*pictures, "the page", tmp_path)


def test_copied_from_firefox(target: str, firefox: Firefox, site: Nginx, hedgerow: Protect) -> None:
    with firefox.tab() as tab:
        tab.goto(hedgerow.url + target)
        texts = firefox_texts(tab, hedgerow)
        bare, _ = _firefox_copy(tab, site.url, target)
        copied, markup = _firefox_copy(tab, hedgerow.url, target)
    assert copied == bare
    assert "cedar cherry" in copied
    assert "cedar cherry" in markup
    assert not [text for text in texts if text in markup]


def _firefox_copy(tab: Tab, url: str, target: str) -> tuple[str, str]:
    tab.goto(url + target)
    tab.press("a", "\ue009")
    tab.press("c", "\ue009")
    tab.goto(url + "/notes.html")
    for selector in ("textarea", "[contenteditable]"):
        tab.click_element(selector)
        tab.press("v", "\ue009")
    return (
        tab.evaluate("document.querySelector('textarea').value"),
        tab.evaluate("document.querySelector('[contenteditable]').innerHTML"),
    )


def test_reader_view_of_firefox(target: str, firefox: Firefox, hedgerow: Protect) -> None:
    with firefox.tab() as tab:
        tab.goto(hedgerow.url + target)
        texts = firefox_texts(tab, hedgerow)
        tab.goto("about:reader?url=" + quote(hedgerow.url + target, safe=""))
        wait_for("the article", lambda: tab.evaluate("document.querySelectorAll('.moz-reader-content p').length") > 3)
        shown = tab.evaluate("document.querySelector('.moz-reader-content').outerHTML")
        links = tab.evaluate("[...document.querySelectorAll('.moz-reader-content a')].map(a => a.href)")
    assert "cedar cherry" in shown
    assert not [text for text in texts if text in shown]
    assert links
    assert not [link for link in links if hedgerow.is_trap(link)]
