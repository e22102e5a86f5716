"""The suppression experiment: laws of crawling, and the paper's figures."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from itertools import pairwise
from random import Random
from typing import get_args
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from typer.testing import CliRunner

from hedgerow.cli.simulate import app
from hedgerow.lab.simulate.crawl import CrawlMemory, Order, crawl, draw_site, popularity
from hedgerow.lab.simulate.plot import draw
from hedgerow.lab.simulate.suppression import Estimate, Parameters, estimate, suppress

SMALL = Parameters(pages=300, links=12, fixed=3, first_pages=30, crews=(1, 2, 5), repeats=3, workers=3)
SVG = "{http://www.w3.org/2000/svg}"


@lru_cache
def papers():
    """The paper's experiment, with fewer repeats."""
    return suppress(Parameters(repeats=4))


@st.composite
def sites(draw):
    pages = draw(st.integers(1, 60))
    links = draw(st.integers(1, 12))
    fixed = draw(st.integers(0, min(links, pages)))
    chance = Random(draw(st.integers(0, 1000)))
    return draw_site(chance, pages=pages, links=links, fixed=fixed, deviation=draw(st.floats(0.5, 50)))


ways = st.fixed_dictionaries(
    {
        "workers": st.integers(1, 8),
        "order": st.sampled_from(get_args(Order)),
        "memory": st.sampled_from(get_args(CrawlMemory)),
    }
)


# Sites


def test_links_follow_the_formula_of_the_paper():
    """P(n) = 2 (cdf(n) - cdf(n - 1)): nearly all of it on the site, the first two pages alike, then ever less."""
    chances = popularity(10_000, 3333)
    assert sum(chances) == pytest.approx(0.9975, abs=1e-4)
    assert chances[0] == pytest.approx(chances[1])
    assert all(earlier > later for earlier, later in pairwise(chances[1:]))
    assert sum(chances[:3334]) == pytest.approx(0.6827, abs=1e-3)


def test_fixed_links_are_on_every_page_and_the_others_are_not():
    site = draw_site(Random(1), pages=2000, links=100, fixed=20, deviation=666)
    assert all(page[:20] == tuple(range(20)) for page in site)
    assert len({page[20:] for page in site}) == 2000


@given(sites())
def test_a_page_links_to_each_page_at_most_once(site):
    assert all(len(set(page)) == len(page) for page in site)
    assert all(0 <= target < len(site) for page in site for target in page)


# Crawls


@given(sites(), ways, st.integers(0, 99))
def test_a_crawler_on_unmarked_links_wastes_no_request(site, way, seed):
    """And it gets everything that a crawler of marked links gets in the end."""
    able = crawl(site, Random(seed), marked=False, **way)
    assert able.efficiency == 1
    assert list(able.found_at) == list(range(1, able.requests + 1))
    assert len(able.found_at) == len(crawl(site, Random(seed), **way).found_at)


@given(sites(), ways, st.integers(0, 99))
def test_a_request_finds_at_most_one_page(site, way, seed):
    """Nor more pages than there are; and the requests end, since no URL is asked for twice."""
    crawled = crawl(site, Random(seed), **way)
    assert 0 < crawled.efficiency <= 1
    assert len(crawled.found_at) <= len(site)
    assert crawled.found_at[0] == 1
    assert sorted(set(crawled.found_at)) == list(crawled.found_at)
    readers = way["workers"] if way["memory"] == "worker" else 1
    urls = readers * sum(map(len, site)) + way["workers"] * (1 + len(site[0]))
    assert crawled.requests <= urls


@given(sites(), ways, st.integers(0, 99), st.integers(1, 20))
def test_a_round_is_one_request_of_each_worker(site, way, seed, rounds):
    whole = crawl(site, Random(seed), **way)
    part = crawl(site, Random(seed), rounds=rounds, **way)
    assert part.requests <= rounds * way["workers"]
    assert list(part.found_at) == [at for at in whole.found_at if at <= part.requests]


def test_all_linked_pages_are_found_in_the_end():
    """A ring, and a page that nobody links to."""
    site = ((1,), (2,), (0,), (0,))
    for order in get_args(Order):
        assert crawl(site, Random(1), workers=1, order=order).found_at == [1, 2, 3]


@pytest.mark.parametrize("workers", [1, 10])
def test_one_page_takes_one_request(workers):
    one = crawl(((0,),), Random(1), workers=workers, pages=1)
    assert (one.requests, list(one.found_at)) == (1, [1])
    result = suppress(Parameters(pages=1, links=1, fixed=1, first_pages=1, workers=workers, crews=(1,), repeats=2))
    assert result.waste == Estimate(0.0, 0.0)
    assert result.extra == {0.5: Estimate(0.0, 0.0), 0.95: Estimate(0.0, 0.0)}


def test_links_are_taken_in_the_order_named():
    """A tree of three levels: by breadth the level, by depth the branch comes first; at random, neither always."""
    tree = ((1, 2), (3, 4), (5, 6), (), (), (), ())

    def visited(order, seed):
        seen = []

        class Watched(tuple):
            __slots__ = ()

            def __getitem__(self, page):
                seen.append(page)
                return super().__getitem__(page)

        crawl(Watched(tree), Random(seed), workers=1, order=order)
        return seen

    breadth, depth, chance = ([visited(order, seed) for seed in range(50)] for order in ("breadth", "depth", "random"))
    assert all(sorted(way[1:3]) == [1, 2] for way in breadth)
    assert all(sorted(way[2:4]) == ([3, 4] if way[1] == 1 else [5, 6]) for way in depth)
    assert {sorted(way[1:3]) == [1, 2] for way in chance} == {True, False}


def test_workers_with_a_common_memory_waste_less():
    """On the long way; they do not read what another has read."""
    common = suppress(SMALL)
    own = suppress(replace(SMALL, memory="worker"))
    assert common.extra[0.5].mean < own.extra[0.5].mean


# The experiment


@pytest.mark.no_cover
def test_half_of_the_site_takes_143_percent_more():
    """The paper: "crawling half of all content requires 143% more queries"."""
    assert papers().extra[0.5].mean == pytest.approx(1.43, abs=0.05)


@pytest.mark.no_cover
def test_95_percent_of_the_site_take_about_30_times_more():
    """The paper: 2781 % more; in closed form, links drawn at random for each request, 3065 %."""
    assert 26 <= papers().extra[0.95].mean <= 33


@pytest.mark.no_cover
def test_one_worker_wastes_about_nine_percent():
    """The paper: 8.2 %."""
    assert 0.08 <= papers().waste.mean <= 0.095
    assert papers().efficiency[1].mean == pytest.approx(1 - papers().waste.mean)


def test_a_worker_among_100_is_less_than_half_as_efficient():
    efficiency = [found.mean for found in papers().efficiency.values()]
    assert efficiency == sorted(efficiency, reverse=True)
    assert efficiency[-1] < efficiency[0] / 2
    assert efficiency[-1] < 0.5


def test_the_closed_form_of_a_crawler_in_random_order_is_near():
    """Each request draws a page anew: a fifth of them a fixed one, the others by popularity."""
    chances = popularity(10_000, 3333)
    rates = [0.8 * chance / sum(chances) + (0.01 if n < 20 else 0) for n, chance in enumerate(chances)]
    requests = 5000 * (1 + papers().extra[0.5].mean)
    assert sum(1 - math.exp(-requests * rate) for rate in rates) == pytest.approx(5000, rel=0.02)


def test_same_seed_same_bytes():
    first, second = suppress(SMALL), suppress(SMALL)
    assert json.dumps(first.to_json()) == json.dumps(second.to_json())
    assert draw(first) == draw(second)
    assert suppress(replace(SMALL, seed=2)).waste != first.waste


def test_more_repeats_do_not_change_the_first():
    """The mean of two and that of one give the second; the mean of three and that of two give the third."""
    one, two, three = (suppress(replace(SMALL, repeats=repeats)).extra[0.5].mean for repeats in (1, 2, 3))
    second, third = 2 * two - one, 3 * three - 2 * two
    spread = suppress(SMALL).extra[0.5].margin
    assert estimate([one, second, third]).margin == pytest.approx(spread)


def test_the_callback_runs_after_each_repeat():
    told = []
    suppress(SMALL, after_each=lambda: told.append(None))
    assert len(told) == SMALL.repeats


def test_after_one_repeat_there_is_no_interval():
    assert suppress(replace(SMALL, repeats=1)).waste.margin is None


def test_a_share_that_is_never_reached_is_none():
    """With two links a page many pages are linked to by none."""
    result = suppress(Parameters(pages=300, links=2, fixed=0, first_pages=5, repeats=2, crews=(1,)))
    assert result.extra[0.95] is None
    assert result.to_json()["extra_requests"]["0.95"] is None
    assert "never" in draw(result)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"pages": 0}, "--pages"),
        ({"links": 0}, "--links"),
        ({"fixed": 101}, "--fixed"),
        ({"fixed": -1}, "--fixed"),
        ({"first_pages": 10_001}, "--first-pages"),
        ({"deviation": 0.0}, "--deviation"),
        ({"deviation": math.nan}, "--deviation"),
        ({"crews": (1, 0)}, "--crews"),
        ({"fractions": (1.5,)}, "--fraction"),
        ({"fractions": (math.nan,)}, "--fraction"),
        ({"repeats": 0}, "--repeats"),
        ({"seed": -1}, "--seed"),
    ],
)
def test_wrong_parameters_are_named(wrong, told):
    parameters = Parameters(**wrong)
    assert any(told in fault for fault in parameters.faults())
    with pytest.raises(ValueError, match=told):
        suppress(parameters)


def test_all_faults_are_reported_at_once():
    assert len(Parameters(workers=0, repeats=0, fractions=(0.0, 2.0)).faults()) == 4


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=30))
def test_an_interval_contains_the_mean(values):
    found = estimate(values)
    assert min(values) - 1e-9 <= found.mean <= max(values) + 1e-9
    assert found.margin >= 0


# The picture


def texts(svg):
    return [element.text for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_the_plot_is_one_svg_file_without_external_resources():
    svg = draw(papers())
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    assert not list(root.iter(f"{SVG}script"))
    assert "prefers-color-scheme: dark" in svg
    assert root.find(f"{SVG}title").text
    assert root.find(f"{SVG}desc").text


def test_the_plot_has_a_bar_for_each_crew_and_a_label_for_each_share():
    svg = draw(papers())
    bars = [rect for rect in ET.fromstring(svg).iter(f"{SVG}rect") if rect.get("class") == "bar"]
    heights = [float(bar.get("height")) for bar in bars]
    assert len(heights) == 7
    assert heights == sorted(heights, reverse=True)
    assert any(text.startswith("50 %: 14") for text in texts(svg))
    assert any(text.startswith("95 %: ") for text in texts(svg))


def test_the_numbers_of_the_paper_are_shown_only_for_its_own_experiment():
    assert 'class="paper"' in draw(papers())
    assert 'class="paper"' not in draw(suppress(SMALL))
    assert Parameters(deviation=3333).like_the_paper
    assert not Parameters(deviation=100).like_the_paper
    assert not Parameters(workers=20).like_the_paper


# The command

QUICK = (
    *("--pages", "300", "--links", "12", "--fixed", "3", "--first-pages", "30"),
    *("--crews", "1,2", "--workers", "3", "--repeats", "2"),
)


def invoke(*options):
    return CliRunner().invoke(app, ["suppression", *map(str, options)])


def test_json_has_this_shape(tmp_path):
    """Other programs read it."""
    done = invoke(*QUICK, "--json", "-", "--crews", "1,2,5,10,20,50,100")
    assert done.exit_code == 0
    data = json.loads(done.stdout)
    assert list(data) == ["single_worker_waste", "efficiency_by_workers", "extra_requests", "parameters"]
    assert list(data["efficiency_by_workers"]) == ["1", "2", "5", "10", "20", "50", "100"]
    assert list(data["extra_requests"]) == ["0.5", "0.95"]
    assert data["parameters"]["seed"] == 1
    assert data["parameters"]["deviation"] == 100
    file = tmp_path / "result.json"
    shown = invoke(*QUICK, "--json", file, "--crews", "1,2,5,10,20,50,100")
    assert json.loads(file.read_text()) == data
    assert "One worker wastes" in shown.stdout


def test_every_number_of_the_paper_is_an_option():
    done = invoke(
        *QUICK,
        "--deviation",
        50,
        "--fraction",
        0.25,
        "--order",
        "depth",
        "--memory",
        "worker",
        "--json",
        "-",
        "--seed",
        7,
    )
    parameters = json.loads(done.stdout)["parameters"]
    assert parameters == {
        "pages": 300,
        "links": 12,
        "fixed": 3,
        "deviation": 50.0,
        "crews": [1, 2],
        "first_pages": 30,
        "workers": 3,
        "fractions": [0.25],
        "order": "depth",
        "memory": "worker",
        "repeats": 2,
        "seed": 7,
    }


def test_the_command_prints_tables_and_writes_a_plot(tmp_path):
    file = tmp_path / "figures.svg"
    done = invoke(*QUICK, "--plot", file)
    assert done.exit_code == 0
    assert done.stderr == ""
    assert "new pages per request" in done.stdout
    assert "95 %" in done.stdout
    ET.fromstring(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "options",
    [
        ["--fixed", "200"],
        ["--crews", "1,many"],
        ["--crews", ""],
        ["--fraction", "2", "--repeats", "0"],
        ["--json", "/nowhere/result.json"],
        ["--plot", "/"],
    ],
)
def test_wrong_use_is_one_line(options):
    done = invoke(*options)
    assert done.exit_code == 2
    assert done.stderr.startswith("hedgerow: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_an_interrupted_simulation_says_so_and_writes_nothing(tmp_path, monkeypatch):
    def stopped_by_hand(_, *, after_each):
        after_each()
        raise KeyboardInterrupt

    monkeypatch.setattr("hedgerow.cli.simulate.suppress", stopped_by_hand)
    file = tmp_path / "result.json"
    done = invoke("--json", file)
    assert done.exit_code == 130
    assert done.stderr == "Interrupted after 1 of 20 repeats; nothing was written.\n"
    assert done.stdout == ""
    assert not file.exists()
