"""Nobody is accused on one ground, and nobody who is busy stays unknown."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))

from evaluate.report_labels import REMOVED, always, at_random, readers, text_of, without

from datasets import LOGS
from hedgerow.report.blocklist import listings
from hedgerow.report.html.page import page
from hedgerow.report.pipeline import Options, make
from hedgerow.report.tables.source_tables import Tables
from hedgerow.report.terminal import print_report
from hedgerow.request.bots import Bots, known_bots

from .logs import BROWSER, line, site_log

MEMORY = 500_000_000
BOTS = Bots(known=known_bots())
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari/604.1"
START = 1_700_000_000.0


def judged(path: Path, lines: Iterable[str] | str, **options) -> tuple[dict[str, dict], set[str], str]:
    """Write a log; return what the report says of each source, which ones are listed, and the summary."""
    path.write_text("".join(lines), "latin-1")
    with Tables([str(path)], memory=MEMORY) as tables:
        report = make(tables, BOTS, Options(**options))
        data = json.loads("".join(report.to_json()))
        listed = {one.subject for one in listings(report, since=0.0, until=0.0, sure=0.5)}
        console = Console(record=True, width=250)
        print_report(console, report)
        assert len("".join(page(report))) > 1000
    return {one["source"]: one for one in data["sources"]}, listed, console.export_text()


def visits(source: str, targets: Iterable[str], *, every: float = 60.0, **more) -> list[str]:
    return [line(source, START + 60 + every * n, target, **more) for n, target in enumerate(targets)]


def posts(source: str, target: str, count: int, *, status: int = 200, every: float = 60.0) -> list[str]:
    return [one.replace('"GET ', '"POST ') for one in visits(source, [target] * count, status=status, every=every)]


def test_nobody_is_called_a_crawler_for_missing_most_assets_and_referrers(tmp_path):
    pages = ["/", "/topic/1", "/", "/topic/2", "/topic/1", "/topic/3"]
    from_a_link = visits("203.0.113.1", ["/topic/4"], referrer="http://e.org/topic/3")
    found, listed, said = judged(tmp_path / "log", [site_log(), *visits("203.0.113.1", pages), *from_a_link])
    assert found["203.0.113.1"]["label"] == "unknown"
    assert found["203.0.113.1"]["reason"] == "Only one kind of evidence speaks for a crawler."
    assert "Only one kind of evidence" in said
    assert listed == {f"198.51.100.{n}" for n in range(10)}


def test_nobody_is_called_a_crawler_for_missing_all_assets_and_referrers(tmp_path):
    pages = ["/", "/topic/1", "/", "/topic/2", "/topic/1", "/topic/3"]
    found, listed, _ = judged(tmp_path / "log", [site_log(), *visits("203.0.113.1", pages)])
    assert found["203.0.113.1"]["label"] == "unknown"
    assert found["203.0.113.1"]["reason"] == "Only one kind of evidence speaks for a crawler."
    assert listed == {f"198.51.100.{n}" for n in range(10)}


TOPICS = [f"/topic/{n}" for n in range(12)]
HABITS = {
    "activity-robots": visits("203.0.113.1", ["/robots.txt", *TOPICS[:6]], every=9),
    "activity-origin": visits("203.0.113.1", TOPICS[:6], every=40, referrer="http://e.org/topic/99"),
    "activity-rapid": visits("203.0.113.1", TOPICS, every=1),
    "activity-lone": visits("203.0.113.1", TOPICS, every=9000),
}
OTHER_HABITS = {
    "looks at robots.txt": visits("203.0.113.1", ["/robots.txt", *TOPICS[:6]], every=11),
    "comes from pages it saw": visits(
        "203.0.113.1", ["/topic/0", *TOPICS[:6]], every=40, referrer="http://e.org/topic/0"
    ),
    "opens seven pages at once": visits("203.0.113.1", TOPICS[:7], every=1),
    "reloads": visits("203.0.113.1", ["/"] * 12, every=1),
    "comes back to a few pages": visits("203.0.113.1", TOPICS[:3] * 4, every=9000),
    "reads two pages each time": [
        line for n in range(10) for line in visits("203.0.113.1", ["/topic/1"] * n + TOPICS[n : n + 2], every=600)[n:]
    ],
}


@pytest.mark.parametrize("habit", HABITS)
def test_a_habit_of_programs_labels_who_has_no_assets_and_lists_nobody(tmp_path, habit):
    lines = [site_log(people=12), *HABITS[habit]]
    found, listed, said = judged(tmp_path / "log", lines)
    mine = found["203.0.113.1"]
    assert (mine["label"], habit in [one["code"] for one in mine["evidence"]]) == ("crawler", True)
    assert "10 of 11 crawlers have at least two independent kinds of evidence" in said
    assert listed == {f"198.51.100.{n}" for n in range(10)}
    # With few people to compare with, nothing is known of habits.
    found, _, _ = judged(tmp_path / "few", [site_log(people=9), *HABITS[habit]])
    assert found["203.0.113.1"]["label"] == "unknown"


@pytest.mark.parametrize("what", OTHER_HABITS)
def test_what_people_do_is_no_habit_of_programs(tmp_path, what):
    found, _, _ = judged(tmp_path / "log", [site_log(people=12), *OTHER_HABITS[what]])
    assert found["203.0.113.1"]["label"] == "unknown"


def test_a_habit_that_people_have_says_nothing(tmp_path):
    """Behind a cache of pages nobody asks the site for the pages that links are on."""
    people = [
        line(f"192.0.2.{100 + n}", START + 3600 * n + 60 * k, target, referrer=referrer)
        for n in range(12)
        for k, page in enumerate(TOPICS[n % 6 : n % 6 + 6])
        for target, referrer in ((page, "http://e.org/topic/99"), (f"/i/{k}.png", f"http://e.org{page}"))
    ]
    lines = [site_log(people=12), *people, *HABITS["activity-origin"]]
    found, _, _ = judged(tmp_path / "log", lines)
    assert {found[f"192.0.2.{100 + n}"]["label"] for n in range(12)} == {"person"}
    assert found["203.0.113.1"]["label"] == "unknown"


def browsing(source: str, at: float, targets: list[str], *, referrer: str = "-") -> list[str]:
    """A page each minute, as a browser loads it: with images that name it; all but the first from the page before."""
    lines = []
    for n, target in enumerate(targets):
        lines.append(line(source, at + 60 * n, target, referrer=referrer))
        referrer = f"http://e.org{target}"
        lines += [line(source, at + 60 * n, f"/i/{k}.png", referrer=referrer) for k in range(3)]
    return lines


def crawler_with_images(source: str, *, days: int = 6) -> list[str]:
    """robots.txt each day, and seconds later the home page with its images; two hours later a page that it led to."""
    lines = []
    for day in range(days):
        at = START + 86_400.0 * day
        lines += [line(source, at, "/robots.txt"), *browsing(source, at + 5, ["/"])]
        lines += browsing(source, at + 7200, [f"/topic/{day}"], referrer="http://e.org/")
        lines += browsing(source, at + 14400, [f"/topic/{day + 20}"], referrer="http://e.org/")
    return lines


def test_a_crawler_that_loads_images_and_asks_for_robots_again_and_again_is_a_contradiction(tmp_path):
    found, listed, said = judged(tmp_path / "log", [site_log(), *crawler_with_images("203.0.113.9")])
    assert (
        "images and referrers as a person's, and a pace, an order or requests for robots.txt that no person has" in said
    )
    assert (found["203.0.113.9"]["label"], found["203.0.113.9"]["kind"]) == ("crawler", "contradiction")
    # Its score is one half: exports hold 0.9 and more, unless they are told otherwise.
    assert found["203.0.113.9"]["score"] == 0.5
    assert listed - {"203.0.113.9"} == {f"198.51.100.{n}" for n in range(10)}


def test_an_office_with_a_program_that_asks_for_robots_is_a_person(tmp_path):
    """People who read several pages each day, and a program that checks links, behind one address."""
    lines = []
    for day in range(6):
        at = START + 86_400.0 * day
        lines.append(line("203.0.113.9", at, "/robots.txt"))
        lines += browsing("203.0.113.9", at + 3600, [f"/topic/{day + n}" for n in range(4)])
        lines += browsing("203.0.113.9", at + 9000, [f"/topic/{day + 30}"])
    found, _, _ = judged(tmp_path / "log", [site_log(), *lines])
    assert found["203.0.113.9"]["label"] == "person"


@pytest.mark.parametrize("referrer", ["-", "http://e.org/"])
def test_a_person_who_looks_at_robots_once_and_reads_a_page_a_day_is_no_crawler(tmp_path, referrer):
    """Its pages come with images that name them, whatever else looks like a habit."""
    lines = [line("203.0.113.9", START, "/robots.txt")]
    for day in range(12):
        lines += browsing("203.0.113.9", START + 86_400.0 * day + 5, [f"/topic/{day}"], referrer=referrer)
    found, listed, _ = judged(tmp_path / "log", [site_log(), *lines])
    assert found["203.0.113.9"]["label"] == "unknown"
    assert "203.0.113.9" not in listed


def test_crawlers_that_look_like_people_do_not_make_their_habits_usual(tmp_path):
    """Of fifteen sources that look like people three are crawlers, which open a page after robots.txt."""
    likely = [one for n in range(3) for one in crawler_with_images(f"203.0.113.{20 + n}", days=2)]
    found, _, _ = judged(tmp_path / "log", [site_log(people=12), *likely, *HABITS["activity-robots"]])
    assert {found[f"203.0.113.{20 + n}"]["label"] for n in range(3)} == {"person"}
    assert found["203.0.113.1"]["label"] == "crawler"


def test_who_fetches_touch_icons_is_a_browser(tmp_path):
    """A telephone that opens its tabs again: pages without referrers, and icons that do not exist."""
    lines = [site_log()]
    for n in range(3):
        source = f"203.0.113.{n}"
        lines += visits(source, [f"/topic/{k}" for k in range(8)], every=7000, agent=IPHONE)
        icons = ["/apple-touch-icon-precomposed.png", "/apple-touch-icon.png"] * 8
        lines += visits(source, icons, every=3500, agent=IPHONE, status=404)
    found, listed, _ = judged(tmp_path / "log", lines)
    assert {found[f"203.0.113.{n}"]["label"] for n in range(3)} == {"person"}
    assert not {f"203.0.113.{n}" for n in range(3)} & listed


@pytest.mark.parametrize("own", ["::1", "127.0.0.1", "198.51.100.200"])
def test_the_site_itself_is_never_advised_to_be_blocked(tmp_path, own):
    agent = "WordPress/6.7; http://e.org" if own.startswith("198.") else "curl/8.0"
    lines = visits(own, [f"/topic/{n}" for n in range(60)], every=2, agent=agent)
    found, listed, said = judged(tmp_path / "log", [site_log(), *lines])
    (mine,) = [one for one in found.values() if one.get("kind") == "the site itself"]
    assert mine["requests"] == 60
    assert mine["label"] == "good-bot"
    assert mine["source"] not in listed
    assert f"The site itself: {mine['source']}. It is never listed." in said


def test_beacons_change_no_label(tmp_path):
    """So many that assets are less than one request in a hundred, and all of them are refused."""
    beacons = [
        one.replace('"GET ', '"POST ')
        for n in range(4)
        for one in visits(f"192.0.2.{n}", ["/collect/x"] * 4500, every=9, referrer="http://e.org/topic/1", status=405)
    ]
    quiet, _, _ = judged(tmp_path / "quiet", site_log(crawlers=0, people=4))
    found, _, _ = judged(tmp_path / "log", [site_log(crawlers=0, people=4), *beacons])
    assert {one["label"] for one in found.values()} == {"person"}
    manner = [
        [e["code"] for e in one["evidence"] if e["detector"] == "manner"] for one in (*quiet.values(), *found.values())
    ]
    assert manner == [[]] * 8


def test_a_person_who_is_too_fast_is_a_contradiction(tmp_path):
    """Images and referrers as a browser has them, but a hundred pages a minute, in the order of the alphabet."""
    lines = [site_log()]
    for n in range(1200):
        at, target = START + n * 0.6, f"/topic/{n:05}"
        status = 404 if n % 3 == 0 else 200
        lines.append(line("203.0.113.9", at, target, referrer=f"http://e.org/topic/{n - 1:05}", status=status))
        lines += [line("203.0.113.9", at, f"/i/{k}.png", referrer=f"http://e.org{target}") for k in range(3)]
    found, _, said = judged(tmp_path / "log", lines)
    assert found["203.0.113.9"]["kind"] == "contradiction"
    assert found["203.0.113.9"]["label"] == "crawler"
    assert "contradiction (1 source" in said
    assert any(e["code"] == "activity-pace" for e in found["203.0.113.9"]["evidence"])


def test_a_class_behind_one_address_is_no_crawler(tmp_path):
    """Fifty people with one user agent read the same twenty pages, nearly two a second."""
    lines = [site_log()]
    for n in range(1500):
        at, target = START + n * 0.6, f"/topic/{n * 7 % 20}"
        lines.append(line("203.0.113.9", at, target, referrer="http://e.org/"))
        lines += [line("203.0.113.9", at, f"/i/{k}.png", referrer=f"http://e.org{target}") for k in range(3)]
    found, listed, _ = judged(tmp_path / "log", lines)
    assert (found["203.0.113.9"]["label"], found["203.0.113.9"]["kind"]) == ("unknown", "contradiction")
    assert found["203.0.113.9"]["reason"] == "It browses like a person, but faster than one."
    assert "203.0.113.9" not in listed


ABUSE = [
    (posts("203.0.113.5", "/xmlrpc.php", 300, status=403, every=30), "log-in attempts"),
    (posts("203.0.113.5", "/wp-login.php", 200, every=30), "log-in attempts"),
    (visits("203.0.113.5", ["/.env", "/.git/config", "/phpmyadmin/", "/wp-login.php"], status=404), "scan"),
    (visits("203.0.113.5", ["/files/a.iso"] * 400, every=20), "file downloads"),
    (visits("203.0.113.5", [f"/api/v1/items/{n}" for n in range(400)], every=20), "API calls"),
    (visits("203.0.113.5", ["/feed/"] * 40, every=3600), "feed reader"),
    (posts("203.0.113.5", "/contact", 60), "form posts"),
    ([*posts("203.0.113.5", "/contact", 30), *visits("203.0.113.5", ["/contact"] * 30)], "form posts"),
]


@pytest.mark.parametrize(("lines", "kind"), ABUSE, ids=lambda one: one if isinstance(one, str) else "")
def test_whoever_is_busy_has_a_kind(tmp_path, lines, kind):
    found, listed, said = judged(tmp_path / "log", [site_log(), *lines])
    assert (found["203.0.113.5"]["label"], found["203.0.113.5"]["kind"]) == ("crawler", kind)
    assert kind in said
    # Feeds are published for programs.
    assert kind != "feed reader" or "203.0.113.5" not in listed


def test_those_who_try_passwords_again_and_again_are_listed(tmp_path):
    _, listed, _ = judged(tmp_path / "log", [site_log(), *posts("203.0.113.5", "/xmlrpc.php", 1530, every=20)])
    assert "203.0.113.5" in listed


def test_members_inherit_the_label_of_their_campaign(tmp_path):
    """Some members of a botnet try often enough to be known by themselves, the others twice."""
    lines = [site_log()]
    for n in range(60):
        source = f"{130 + n}.{n}.113.7"
        for k in range(8 if n < 5 else 1):
            script = posts(source, "/wp-login.php", 2, status=403, every=3)
            lines += [one.replace("14/Nov/2023", f"{14 + k}/Nov/2023") for one in script]
    found, _, _ = judged(tmp_path / "log", lines)
    members = [found[f"{130 + n}.{n}.113.7"] for n in range(60)]
    assert {one["label"] for one in members} == {"crawler"}
    assert {one["kind"] for one in members} == {"log-in attempts"}
    assert all(one["campaign"] for one in members)


@pytest.mark.parametrize("rate", [at_random, always], ids=["at random", "all"])
@pytest.mark.parametrize("what", REMOVED)
def test_drawn_people_without_referrers_or_assets_are_no_crawlers(tmp_path, what, rate):
    people = {f"192.0.2.{n}" for n in range(100)}
    lines = site_log(people=100).splitlines(keepends=True)
    found, listed, _ = judged(tmp_path / "log", without(lines, people, what, rate))
    accused = [source for source in people if found[source]["label"] == "crawler"]
    assert len(accused) <= 2
    assert not people & listed


REAL = [
    "french-site_2009-03_2009-04.log.xz",
    "semicomplete_elastic-apache-10k_2015.log.xz",
    "sparkdeveloper_2016-02_2016-03.log.xz",
    "almhuette-raith_2020-12_2021-04.log.xz",
]


@pytest.mark.skipif(not LOGS.is_dir(), reason=f"{LOGS} is not here: real logs are kept outside the repository")
@pytest.mark.parametrize(
    ("what", "rate"),
    # The rest is measured by `python -m evaluate`.
    [("nothing", always), ("referrers", at_random), ("assets", always), ("both", at_random), ("both", always)],
)
def test_real_readers_without_referrers_or_assets_are_no_crawlers(tmp_path, what, rate):
    """At most one in fifty of all logs together, whether some or all are removed."""
    count = accused = 0
    for name in REAL:
        people = readers(LOGS / name)
        found, _, _ = judged(tmp_path / name, without(text_of(LOGS / name), people, what, rate))
        count += len(people)
        accused += sum(found[one]["label"] == "crawler" for one in people if one in found)
    assert count > 150
    assert accused <= 0.02 * count


@pytest.mark.skipif(not LOGS.is_dir(), reason=f"{LOGS} is not here: real logs are kept outside the repository")
@pytest.mark.parametrize("name", [*REAL, "honeynet-redhat_2004.log.xz"])
def test_hardly_any_requests_are_unknown(name):
    with Tables([str(LOGS / name)], memory=MEMORY) as tables:
        report = make(tables, BOTS, Options())
        total = sum(requests for _, requests in report.totals().values())
        unknown = report.totals()["unknown"]
        assert unknown[1] <= 0.05 * total
        assert sum(sources for sources, _ in report.reasons().values()) == unknown[0]


def test_a_browser_with_few_pages_is_a_person(tmp_path):
    lines = visits("203.0.113.3", ["/topic/5"], referrer="https://search.example/")
    lines += visits("203.0.113.3", ["/i/1.png", "/i/2.png", "/favicon.ico"], referrer="http://e.org/topic/5", every=1)
    found, _, _ = judged(tmp_path / "log", [site_log(agent=BROWSER), *lines, *visits("203.0.113.4", ["/topic/5"])])
    assert found["203.0.113.3"]["label"] == "person"
    assert (found["203.0.113.4"]["label"], found["203.0.113.4"]["reason"]) == (
        "unknown",
        "It made too few requests to tell.",
    )


def test_two_grounds_are_enough_however_few_pages_there_are(tmp_path):
    """Two pages and robots.txt three times, without images or referrers; and the same without robots.txt."""
    lines = visits("203.0.113.3", ["/robots.txt", "/topic/1", "/robots.txt", "/topic/2", "/robots.txt"], every=7000)
    found, _, _ = judged(tmp_path / "log", [site_log(), *lines, *visits("203.0.113.4", ["/topic/1", "/topic/2"])])
    assert (found["203.0.113.3"]["label"], found["203.0.113.4"]["label"]) == ("crawler", "unknown")


def test_a_small_log_is_reported_without_compiled_functions(tmp_path):
    """To import numba takes longer than the whole report."""
    (tmp_path / "log").write_text(site_log())
    code = (
        "import sys; from hedgerow.cli.main import app; sys.argv = ['hedgerow', 'report', 'log', '--top', '0']\n"
        "try:\n    app()\n"
        "finally:\n    assert 'hedgerow.report.label_rules' in sys.modules and 'numba' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
