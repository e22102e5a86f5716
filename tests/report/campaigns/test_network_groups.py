"""Sources in one network with the same page mix that divide the work, and sources with the same paths."""

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.report.campaigns import network_groups as company
from hedgerow.report.campaigns.group_links import Requests, _met
from hedgerow.report.campaigns.network_groups import full, network_of
from hedgerow.report.campaigns.search import find
from hedgerow.report.campaigns.shared_requests import find_shared_paths
from hedgerow.report.campaigns.traffic_similarity import SimilarGroups
from hedgerow.report.shape.series import Counts, plan_of

DAY = 86_400.0
SECTIONS = 20


def site():
    """
    Workers of one crawler in two networks, another crawler in a third, two people, a stranger, and three more crawlers,
    each with a taste of its own.
    """
    chance = np.random.default_rng(3)
    names, rows = [], []
    pages = [f"/part{section}/{n}" for section in range(SECTIONS) for n in range(20 * section)]
    pages += [f"/tags?page={n}" for n in range(600)]

    def add(name, asked, times):
        names.append(name)
        rows.extend((len(names) - 1, at, page) for at, page in zip(sorted(times), asked, strict=True))

    work = chance.permutation(pages)
    for worker in range(10):
        network = "198.51.100" if worker < 5 else "203.0.113"
        add(f"{network}.{worker}", work[worker * 60 : worker * 60 + 60], chance.uniform(0, 4 * DAY, 60))
    for worker in range(4):
        tags = [f"/tags?page={n}" for n in chance.integers(0, 600, 60)]
        add(f"192.0.2.{worker}", tags, chance.uniform(0, 4 * DAY, 60))
    for person in range(2):
        add(f"198.18.0.{person}", chance.choice(pages, 10), DAY + np.arange(10.0))
    add("198.51.7.9", chance.choice(pages, 30), chance.uniform(0, 4 * DAY, 30))
    for other in range(3):
        taste = chance.dirichlet(np.ones(SECTIONS))
        for worker in range(3):
            mine = [f"/part{k}/{chance.integers(0, 400)}" for k in chance.choice(SECTIONS, 60, p=taste)]
            add(f"100.64.{16 * other}.{worker}", mine, chance.uniform(0, 4 * DAY, 60))
    people = np.array([name.startswith("198.18") for name in names])
    targets = sorted({page for _, _, page in rows})
    number = {page: n for n, page in enumerate(targets)}
    kept = [row for row in rows if not people[row[0]]]
    requests = Requests.of_targets(
        np.array([row[0] for row in kept]),
        np.array([row[1] for row in kept]),
        np.array([number[row[2]] for row in kept]),
        targets,
    )
    return names, people, requests


def test_networks_with_one_diet_are_one_campaign():
    names, people, requests = site()
    found = company.find(names, people, requests)
    others = [(17, 18, 19), (20, 21, 22), (23, 24, 25)]
    assert [one.members for one in found] == [tuple(range(10)), (10, 11, 12, 13), *others]
    assert "in 2 networks (198.51.100.0/24, 203.0.113.0/24)" in found[0].text
    assert "but not for the same ones" in found[0].text
    assert found[1].text == "4 sources that are no people's: all from 192.0.2.0/24, where hardly anybody else is."


def test_a_network_of_people_is_none():
    names, people, requests = site()
    people[:3] = True
    found = company.find(names, people, requests)
    assert all(not set(one.members) & set(range(5)) for one in found)


def test_a_user_agent_that_no_person_has():
    names, people, requests = site()
    agents = ["crawl/1"] * 10 + ["tags/2"] * 2 + ["Mozilla"] * 4 + ["crawl/1"] + [""] * 9
    found = company.find(names, people, requests, agents)
    assert found[0].members == (*range(10), 16)
    assert "user agent that hardly any person has, 'crawl/1'" in found[0].text
    assert not any("Mozilla" in one.text for one in found)


def test_who_only_looks_like_a_person_among_ten_crawlers_is_one():
    names = [f"198.51.100.{n}" for n in range(12)] + [f"203.0.113.{n}" for n in range(6)]
    people = np.array([False] * 10 + [True] * 2 + [False] * 5 + [True])
    none = Requests(np.zeros(0, int), np.zeros(0), *[np.zeros(0, int)] * 3)
    looks = people.copy()
    looks[11] = False
    found = company.find(names, people, none, doubtful=looks)
    assert [one.members for one in found] == [tuple(range(11)), tuple(range(12, 17))]
    assert [one.members for one in company.find(names, people, none)] == [tuple(range(10)), tuple(range(12, 17))]


def test_the_same_walk_and_the_same_minutes():
    chance = np.random.default_rng(1)
    rows = []
    probes = list(range(500, 512))
    for source in range(4):
        rows += [(source, 1e6 * source + n, page) for n, page in enumerate(probes)]
    clock = np.sort(chance.choice(10_000, 12, replace=False)) * 60.0
    for source in range(4, 7):
        rows += [(source, at + source, int(chance.integers(0, 400))) for at in clock]
    for source in range(7, 30):
        rows += [(source, at, int(chance.integers(0, 400))) for at in chance.uniform(0, 600_000, 12)]
    columns = [np.array(column) for column in zip(*sorted(rows), strict=True)]
    found = find_shared_paths(*columns)
    assert [(one.kind, one.members) for one in found] == [("same walk", (0, 1, 2, 3)), ("same minutes", (4, 5, 6))]
    assert find_shared_paths(*(column[:0] for column in columns)) == []


def test_all_ways_together_and_no_people():
    names, people, requests = site()
    plan = plan_of(0, 4 * DAY)
    counts = Counts.of_times(requests.sources, requests.times, plan, len(names))
    found = find(names, people, counts, plan, requests)
    assert [len(one.members) for one in found] == [10, 4, 3, 3, 3]
    assert not any(people[member] for one in found for member in one.members)
    assert found == find(names, people, counts, plan, requests)
    instant = plan_of(0, 0)
    nothing = Requests(np.zeros(0, int), np.zeros(0), *[np.zeros(0, int)] * 3)
    assert find(["a"], np.array([False]), Counts.of_times([0], [0.0], instant, 1), instant, nothing) == []


def divided(chance: np.random.Generator, *, itself: bool) -> list[tuple[int, float, int]]:
    """
    Two networks that come at the same moments, one for robots.txt and the other for a page; a third does both at other
    times. *itself*: the first one asks for a page, too.
    """
    often = np.arange(30) * 5000.0 + chance.uniform(0, 2000, 30)
    rows = [(int(chance.integers(0, 3)), at, 0) for at in often]
    rows += [(int(chance.integers(3, 6)), at + 7, 1) for at in often]
    rows += [(int(chance.integers(0, 3)), at + 9, 1) for at in often if itself]
    for at in chance.uniform(0, 150_000, 30):
        rows += [(6, at, 0), (7, at + 9, 1)]
    return [*rows, (8, 70_000.0, 1)]


def groups_of(rows: list[tuple[int, float, int]]) -> list[SimilarGroups]:
    names = [f"{network}.{n}" for network in ("198.51.100", "203.0.113", "192.0.2") for n in range(3)]
    sources, times, pages = (np.array(column) for column in zip(*rows, strict=True))
    requests = Requests.of_targets(sources, times, pages, ["/robots.txt", "/"], np.full(len(rows), 200))
    return company.find(names, np.zeros(len(names), dtype=bool), requests)


def test_groups_that_divide_robots_and_pages_again_and_again_are_one_campaign():
    found = groups_of(divided(np.random.default_rng(5), itself=False))
    assert [one.members for one in found] == [(0, 1, 2, 3, 4, 5), (6, 7, 8)]
    assert "one asks for robots.txt, and the other for a page seconds later" in found[0].text


def test_strangers_who_look_at_robots_for_themselves_are_no_campaign():
    """The same news brings two crawlers within seconds. One asks for robots.txt, and opens the page itself."""
    rows = divided(np.random.default_rng(5), itself=True)
    # It is there all day, so nothing else says when it comes.
    rows += [(n % 3, 240.0 * n, 1) for n in range(625)]
    assert sorted(one.members for one in groups_of(rows)) == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]


def test_networks_that_ask_for_robots_and_for_pages_when_they_please_are_no_campaign():
    chance = np.random.default_rng(6)
    rows = [(k + int(chance.integers(0, 3)), at, k // 3) for k in (0, 3) for at in chance.uniform(0, 150_000, 200)]
    assert sorted(one.members for one in groups_of(rows)) == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]


def test_groups_that_meet_again_and_again_are_one_campaign():
    """One network asks for a page, another for the next one some seconds later; a third comes when it pleases."""
    chance = np.random.default_rng(5)
    names = [f"{network}.{n}" for network in ("198.51.100", "203.0.113", "192.0.2") for n in range(3)]
    often = np.arange(30) * 5000.0 + chance.uniform(0, 2000, 30)
    rows = [(int(chance.integers(0, 3)) + 3 * k, at + 7 * k, k) for k in range(2) for at in often]
    rows += [(6 + int(chance.integers(0, 3)), at, 2) for at in chance.uniform(0, 150_000, 30)]
    sources, times, pages = (np.array(column) for column in zip(*sorted(rows), strict=True))
    people = np.zeros(len(names), dtype=bool)
    found = company.find(names, people, Requests(sources, times, pages, pages, pages))
    assert [one.members for one in found] == [(0, 1, 2, 3, 4, 5), (6, 7, 8)]
    assert "come within seconds of one another again and again" in found[0].text
    # Where everybody comes at the full hour, it is the clock that they meet.
    hours = [np.sort(chance.choice(100, 40, replace=False)) * 3600.0 + chance.uniform(0, 30, 40) for _ in range(3)]
    rows = [(int(chance.integers(0, 3)) + 3 * k, at, k) for k in range(3) for at in hours[k]]
    sources, times, pages = (np.array(column) for column in zip(*sorted(rows), strict=True))
    found = company.find(names, people, Requests(sources, times, pages, pages, pages))
    assert sorted(one.members for one in found) == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]
    # One long visit beside another is one meeting.
    burst = np.arange(60.0)
    rows = [(n % 3 + 3 * k, at, k) for k in range(2) for n, at in enumerate(burst)]
    sources, times, pages = (np.array(column) for column in zip(*sorted(rows), strict=True))
    found = company.find(names, people, Requests(sources, times, pages, pages, pages))
    assert sorted(one.members for one in found) == [(0, 1, 2), (3, 4, 5), (6, 7, 8)]


def test_who_has_met_whom_as_counted_one_by_one():
    chance = np.random.default_rng(7)
    comings = [np.cumsum(301 + chance.integers(0, 60, often)).astype(float) for often in (30, 200, 0, 90)]
    for one, mine in enumerate(comings):
        for other, theirs in enumerate(comings):
            met = sum(any(abs(at - time) <= 20 for time in theirs) for at in mine)
            assert _met(comings)[one, other] == (met if one != other else 0)
    assert _met([]).shape == (0, 0)


ADDRESSES = st.one_of(
    st.builds("10.{}.{}.{}".format, st.integers(0, 1), st.integers(0, 40), st.integers(0, 255)),
    st.builds("2001:db8:{:x}::{:x}".format, st.integers(0, 3), st.integers(1, 99)),
    st.builds("2001:db{}::1".format, st.integers(0, 9)),
    st.sampled_from(
        ["", "x", "10.0.1.0/24", "10.0.0.256", "10.0.0.01", "account:10.0.0.1", "10.0.0.1\x00", "\u0661.0.0.1"]
    ),
)


def test_network_of():
    assert network_of("192.0.2.77") == network_of("192.0.2.0/24") == ("192.0.2.0/24", "192.0.0.0/20")
    assert network_of("2001:db8:1:2::3") == ("2001:0db8:0001::/48", "2001:0db8::/32")
    assert network_of("66.249.79.3") == ("66.249.79.0/24", "66.249.64.0/20")
    assert network_of("2001:db8:7::1/64") == ("2001:0db8:0007::/48", "2001:0db8::/32")
    assert network_of("Alice") == network_of("192.0.2.077") == network_of("account:192.0.2.7") == ("", "")


CRAWLER, PERSON, DOUBTFUL = range(3)


@given(st.lists(st.tuples(ADDRESSES, st.just(CRAWLER) | st.sampled_from([PERSON, DOUBTFUL])), max_size=60))
def test_all_neighbours_of_a_full_network_that_people_leave_alone(sources):
    names = [name for name, _ in sources]
    kinds = np.array([kind for _, kind in sources], np.int64)
    inside, crowd, looks = defaultdict(list), defaultdict(int), defaultdict(list)
    for number, (name, kind) in enumerate(sources):
        if kind == CRAWLER:
            inside[network_of(name)].append(number)
        else:
            crowd[network_of(name)] += 1
            if kind == DOUBTFUL:
                looks[network_of(name)].append(number)
    wider = defaultdict(list)
    for key, members in inside.items():
        if key[0] and crowd[key] <= 0.4 * (len(members) + crowd[key]):
            wider[key[1]].append((key[0], members, looks[key] if len(members) >= 4 else []))
    expected = [
        (
            tuple(sorted(network for network, _, _ in wider[wide])),
            wide,
            tuple(sorted(number for _, members, others in wider[wide] for number in members + others)),
        )
        for wide in sorted(wider)
        if any(len(members) >= 3 for _, members, _ in wider[wide])
    ]
    assert full(names, kinds != CRAWLER, kinds == DOUBTFUL, members=3, share=0.4, around=4) == expected
