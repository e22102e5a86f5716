"""The page of a report in a real browser: it asks for nothing, sorts and filters, and everybody can read it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from hedgerow.cli.report import run
from report.weeks import busy_log, hostile_log

from .browsing import tab
from .challenged import axe_faults
from .conftest import missing

AXE = Path(__file__).parent / "axe" / "axe.min.js"
SHOTS = os.environ.get("HEDGEROW_SHOTS", "")


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.exists():
        missing("axe-core")
    return AXE.read_text("utf-8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Two reports as the command writes them."""
    folder = tmp_path_factory.mktemp("report")
    for log in (busy_log(folder / "busy.log"), hostile_log(folder / "hostile.log")):
        run([str(log)], html_path=str(log.with_suffix(".html")))
    return folder


@contextmanager
def opened(browser, path, **options):
    """The page in a tab; at the end nothing was complained of, and nothing was asked for but the file."""
    said: list[str] = []
    with tab(browser, **options) as page:
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: said.append(request.url))
        page.goto(f"file://{path}")
        yield page
        assert said == [f"file://{path}"]


def column(page, table: str, number: int) -> list[str]:
    """What a reader sees in a column."""
    return page.evaluate(
        "([id, n]) => [...document.querySelectorAll(`#${id} tbody tr`)].filter(r => r.checkVisibility())"
        ".map(r => r.cells[n].textContent)",
        [table, number],
    )


def shoot(page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def test_a_table_sorts_and_filters_by_keyboard(browser, pages):
    with opened(browser, pages / "busy.html") as page:
        requests = page.locator("#source-table th", has_text="requests")
        requests.locator("button").focus()
        page.keyboard.press("Enter")
        found = [int(text.replace(",", "")) for text in column(page, "source-table", 3)]
        assert found == sorted(found, reverse=True)
        assert requests.get_attribute("aria-sort") == "descending"
        page.keyboard.press("Enter")
        assert requests.get_attribute("aria-sort") == "ascending"
        assert column(page, "source-table", 3) == [f"{count:,}" for count in sorted(found)]
        page.locator("#sources").get_by_label("Only this label").select_option("crawler")
        assert set(column(page, "source-table", 1)) == {"crawler"}
        page.locator("#sources input[type=search]").type("FETCHER 203.0")
        assert sorted(column(page, "source-table", 0)) == ["203.0.113.1", "203.0.113.2", "203.0.113.3"]
        assert page.locator("#sources [role=status]").inner_text() == "3 of 34 rows"


def test_the_chart_is_read_by_arrow_keys_and_pointer(browser, pages):
    with opened(browser, pages / "busy.html") as page:
        page.locator(".plot").focus()
        page.keyboard.press("Home")
        first = page.locator(".reading").inner_text()
        assert first.startswith("2023-11-14")
        assert "crawlers" in first
        page.keyboard.press("ArrowRight")
        assert page.locator(".reading").inner_text() != first
        page.locator(".plot svg").hover(
            position={"x": page.locator(".plot svg").bounding_box()["width"] * 0.9, "y": 50}
        )
        assert page.locator(".reading").inner_text().startswith("2023-11-18")


def test_what_visitors_wrote_does_not_run(browser, pages):
    """A dialog, an image that is asked for or a violation of the policy would all be noticed."""
    with opened(browser, pages / "hostile.html") as page:
        assert page.locator("main img, main script").count() == 0
        assert "<script>alert(document.domain)</script>" in page.locator("#source-table tbody").inner_text()
        shoot(page, "report-hostile")


def test_without_script_it_is_all_there(browser, pages):
    with opened(browser, pages / "busy.html", java_script_enabled=False) as page:
        assert page.locator("#source-table tbody tr").count() == 34
        assert page.locator("button, input, select").count() == 0


def test_it_fits_a_narrow_screen_and_paper(browser, pages):
    """Nothing sticks out at the side; on paper there are no controls, and the colours are those of light."""
    with opened(browser, pages / "busy.html") as page:
        page.set_viewport_size({"width": 360, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        shoot(page, "report-narrow")
        page.emulate_media(media="print", color_scheme="dark")
        page.set_viewport_size({"width": 800, "height": 1100})
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not page.locator("#sources input").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 800
        shoot(page, "report-print")
        assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["busy", "hostile"])
def test_no_serious_fault_for_axe(browser, axe, pages, name, scheme):
    with opened(browser, pages / f"{name}.html", color_scheme=scheme) as page:
        shoot(page, f"report-{name}-{scheme}")
        assert axe_faults(page, axe) == []
