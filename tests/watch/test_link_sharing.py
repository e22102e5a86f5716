"""Visitors that share links are found as campaigns through the real gate; people are not."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from driving import START
from hedgerow.core.visit import Marker, Visit
from hedgerow.markers.token import visitor_digest
from hedgerow.watch.link_sharing import _MIN_PAGES, LinkSharing, SharingLimits, poisson_tail

from .sharing_site import PAGES, SharedSite


def crawl(site: SharedSite, workers: int, requests: int, seed: int, wait: float = 1.0) -> int | None:
    """Crawl with workers that share a pool of links. Return the number of requests before the first campaign."""
    chance = random.Random(seed)
    addresses = [f"198.51.100.{n}" for n in range(workers)]
    pool = list(site.get(addresses[0], "/")[1])
    found = None
    for _ in range(requests - 1):
        link = pool.pop(chance.randrange(len(pool)))
        pool += site.get(chance.choice(addresses), link, wait)[1]
        if site.campaigns and found is None:
            found = site.asked
    return found


def browse(site: SharedSite, chance: random.Random, people: int, visits: int, share: float) -> None:
    """Browse as people who follow their own links, and with probability *share* one that somebody sent them."""
    links: dict[str, list[str]] = {f"10.{n // 250}.{n % 250}.7": [] for n in range(people)}
    names = list(links)
    for _ in range(visits):
        who = chance.choice(names)
        friend = chance.choice(names)
        if links[friend] and chance.random() < share:
            link = chance.choice(links[friend])
        else:
            link = chance.choice(links[who]) if links[who] and chance.random() < 0.9 else "/"
        links[who] = site.get(who, link, chance.expovariate(1.0))[1] or links[who]


@pytest.mark.parametrize("seed", range(10))
def test_ten_workers_with_one_pool_are_one_campaign_within_a_hundred_requests(seed):
    site = SharedSite()
    found = crawl(site, 10, 100, seed)
    assert found is not None
    assert found <= 40
    assert site.asked == 100
    (campaign,) = site.campaigns
    assert campaign.kind == "sharing"
    # All of them, but for one at the most whose links nobody has come to use before the others were challenged.
    assert len(campaign.members) >= 9
    assert all(member.startswith("198.51.100.") for member in campaign.members)
    assert "links that were issued to one another" in campaign.text


def test_members_are_challenged_together():
    site = SharedSite()
    assert crawl(site, 10, 100, 1) is not None
    (campaign,) = site.campaigns
    for member in campaign.members:
        decision, _ = site.get(member, "/", 0.0)
        assert (decision.action, decision.code) == ("challenge", "suspect")
        assert "campaign" in decision.evidence[-1].text
    assert site.get("203.0.113.5")[0].action == "pass"


def test_members_are_not_challenged_if_campaigns_are_only_recorded():
    site = SharedSite("[campaigns]\nresponse = 'record'\n")
    assert crawl(site, 10, 40, 1) is not None
    (campaign,) = site.campaigns
    assert {site.get(member)[0].action for member in campaign.members} == {"pass"}
    scores = dict(site.gate.state.scores())
    assert all(("campaign", 1) in scores[member].reasons for member in campaign.members)


def test_crawlers_that_use_each_address_once_are_found():
    """Rented addresses: each requests one page, by a link issued to an earlier one."""
    site, links, asked = SharedSite(), [], 0
    chance = random.Random(3)
    for n in range(60):
        link = links.pop(chance.randrange(len(links))) if links else "/"
        links += site.get(f"10.9.{n}.1", link, 5.0)[1]
        asked += 1
        if site.campaigns:
            break
    assert site.campaigns
    assert asked < 60


def test_workers_that_get_their_links_from_one_scout_are_found():
    site = SharedSite()
    scout, workers, links = "198.51.100.1", ["198.51.100.7", "198.51.100.8", "198.51.100.9"], []
    links += site.get(scout)[1]
    for _ in range(4):
        links += site.get(scout, links.pop(0))[1]
    for n in range(24):
        site.get(workers[n % 3], links.pop())
    (campaign,) = site.campaigns
    assert set(campaign.members) == set(workers)


@pytest.mark.parametrize("seed", range(5))
def test_two_workers_need_more_links_to_be_a_campaign(seed):
    site = SharedSite()
    found = crawl(site, 2, 150, seed)
    assert found is not None
    assert 30 < found <= 80


@pytest.mark.no_cover
@pytest.mark.parametrize("share", [0.0023, pytest.param(0.01, marks=pytest.mark.slow), 0.05])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_people_who_sometimes_share_a_link_are_not_a_campaign(share, seed):
    site = SharedSite()
    browse(site, random.Random(seed), 200, 6_000, share)
    assert site.campaigns == []


def test_three_people_who_only_read_links_of_their_chat_are_not_a_campaign():
    site, names = SharedSite(), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    chance = random.Random(4)
    for n in range(20):
        poster = names[n % 3]
        page = site.get(poster, "/", 300.0)[1]
        link = chance.choice(page)
        site.get(poster, link)
        for other in names:
            if other != poster:
                site.get(other, link, 60.0)
    assert site.campaigns == []


@pytest.mark.parametrize("posted", [1, 3])
def test_readers_of_a_posted_link_are_not_a_campaign(posted):
    site = SharedSite()
    poster = "10.0.0.1"
    links = site.get(poster)[1][:posted]
    for n in range(300):
        reader = f"10.1.{n // 250}.{n % 250}"
        page = []
        for link in links:
            page = site.get(reader, link)[1] or page
        for link in page[: n % 4]:
            site.get(reader, link)
    assert site.campaigns == []


@pytest.mark.parametrize("seed", range(5))
def test_readers_of_a_newsletter_with_links_that_were_copied_are_not_a_campaign(seed):
    site, chance = SharedSite(), random.Random(seed)
    newsletter = site.get("10.0.0.1")[1][:12]
    clicks = [(f"10.1.{reader}.7", link) for reader in range(40) for link in newsletter]
    # Some read at the same time, and not everybody all of it.
    clicks.sort(key=lambda click: (click[0].split(".")[2] > "2", chance.random()))
    for reader, link in clicks:
        assert site.get(reader, link)[0].action == "pass"
    assert site.campaigns == []


@pytest.mark.parametrize("bots", [1, 2, 3])
def test_servers_that_show_previews_of_the_same_links_are_not_a_campaign(bots):
    site = SharedSite()
    for person in range(40):
        link = site.get(f"10.3.{person}.1")[1][0]
        for bot in range(bots):
            assert site.get(f"203.0.{bot}.9", link, 10.0)[0].action == "pass"
    assert site.campaigns == []


def test_people_behind_sixteen_addresses_without_cookies_are_not_a_campaign():
    site, chance = SharedSite(), random.Random(7)
    people = [("", site.get(f"192.0.2.{n}")[1]) for n in range(8)]
    for _ in range(40):
        for number, (here, links) in enumerate(people):
            link = chance.choice(links)
            browser = [
                (b"user-agent", b"Mozilla/5.0 (X11; rv:140.0) Gecko/20100101 Firefox/140.0"),
                (b"accept-language", b"en"), (b"accept-encoding", b"gzip"),
                (b"sec-fetch-site", b"same-origin"), (b"sec-fetch-mode", b"navigate"),
                (b"referer", f"https://example.org/{here.removeprefix('/')}".encode()),
            ]  # fmt: skip
            decision, more = site.get(f"192.0.2.{chance.randrange(16)}", link, more=browser)
            assert decision.action == "pass"
            people[number] = (link, more)
    assert site.campaigns == []


def test_readers_of_a_search_engine_that_crawled_marked_links_do_not_join_its_campaign():
    site = SharedSite()
    assert crawl(site, 10, 100, 2) is not None
    engine = set(site.campaigns[0].members)
    member = next(iter(engine))
    seal = site.seals.of("example.org").sealer(visitor_digest(member), bytes(6))
    links = ["/~" + token.decode() for token in seal([b"\x01/page/%d" % n for n in range(100)])[:100]]
    for n, link in enumerate(links):
        own = site.get(f"10.2.0.{n}", link)[1]
        for page in own[: n % 3]:
            site.get(f"10.2.0.{n}", page)
    assert set(site.campaigns[0].members) == engine


def test_two_campaigns_with_a_common_member_merge():
    sharing = LinkSharing()
    share(sharing, ["a", "b", "c"], 30)
    share(sharing, ["x", "y", "z"], 30)
    assert len(sharing.campaigns()) == 2
    # A visitor outside both uses links of both, and they use its links.
    for n, issuer in enumerate(["a", "x"] * 6):
        found = sharing.see(visit("new", START + 100 + n, f"/n{n}", issuer), visitor_digest(issuer))
        sharing.see(visit(issuer, START + 100 + n, f"/m{n}", "new"), visitor_digest("new"))
        if found is not None and found.merged:
            break
    (campaign,) = sharing.campaigns()
    assert set(campaign.members) == {"a", "b", "c", "x", "y", "z", "new"}
    assert len(found.merged) == 1


def test_campaigns_survive_a_restart():
    before, after = LinkSharing(), LinkSharing()
    share(before, ["a", "b", "c"], 30)
    after.restore(before.campaigns())
    assert after.campaigns() == before.campaigns()
    share(after, ["a", "b", "c", "d"], 40, START + 60)
    (campaign,) = after.campaigns()
    assert campaign.id == before.campaigns()[0].id
    assert set(campaign.members) == {"a", "b", "c", "d"}


def restarted(sharing: LinkSharing, store: dict[bytes, tuple[float, bytes]]) -> LinkSharing:
    """Return another instance, restored from what this one reports as changed."""
    for who, kept in sharing.changed().items():
        store.pop(who, None)
        if kept is not None:
            store[who] = kept
    after = LinkSharing(sharing.limits)
    after.record_changes()
    after.restore(sharing.campaigns())
    after.restore_ties([(who, value) for who, (_, value) in sorted(store.items(), key=lambda item: item[1][0])])
    return after


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 12)), max_size=60),
    st.sets(st.integers(0, 60)),
)
@example(
    [(0, 0, 0), (0, 0, 0), (0, 2, 0), (1, 0, 0), (1, 0, 1), (1, 0, 2), (1, 0, 3), (1, 2, 1), (1, 2, 2), (1, 3, 0),
     (1, 3, 1), (2, 1, 0), (2, 1, 1)],
    {1},
)  # fmt: skip
def test_link_records_survive_a_restart(visits, restarts):
    """
    Restarts at any visit do not change at which visit a campaign is found.

    Only visitors that have just begun, without any shared link, are lost.
    """
    straight, kept, store = LinkSharing(), LinkSharing(), {}
    kept.record_changes()
    for n, (who, issuer, page) in enumerate(visits):
        if n in restarts:
            kept = restarted(kept, store)
            for begun in straight._nodes.keys() - kept._nodes.keys():
                node = straight._nodes.pop(begun)
                assert node.pages < _MIN_PAGES
                assert not node.is_connected
        name, owner = f"v{who}", f"v{issuer}"
        seen = visit(name, START + n * 30.0, f"/{page}", owner)
        found = [one.see(seen, visitor_digest(owner) if name != owner else None) for one in (straight, kept)]
        joined = [f and f.joined for f in found]
        assert joined[0] == joined[1]
        if found[0] is not None:
            # The link use of members of a campaign is not stored.
            return


def test_a_restart_in_the_middle_of_a_crawl_hides_nobody():
    straight, stopped = SharedSite(), SharedSite()
    expected = crawl(straight, 10, 60, seed=3)
    stopped.watch.sharing.record_changes()
    store: dict[bytes, tuple[float, bytes]] = {}
    before = stopped.get

    def get(*arguments):
        stopped.watch.sharing = restarted(stopped.watch.sharing, store)
        return before(*arguments)

    stopped.get = get
    assert crawl(stopped, 10, 60, seed=3) == expected
    assert set(stopped.campaigns[0].members) == set(straight.campaigns[0].members)


def test_link_records_of_another_version_are_ignored():
    sharing = LinkSharing()
    sharing.restore_ties([(b"who", b"\xff")])
    assert len(sharing) == 0


def test_sharing_that_chance_explains_is_not_a_campaign():
    """With a high setting of `chance`, enough members and links are not enough: chance must be ruled out as well."""
    unlikely, likely = LinkSharing(SharingLimits(chance=0.01)), LinkSharing(SharingLimits(chance=0.35))
    for sharing in (unlikely, likely):
        share(sharing, ["a", "b", "c"], 15)
    assert len(unlikely.campaigns()) == 1
    assert likely.campaigns() == []
    # More of the same cannot be chance any more.
    share(likely, ["a", "b", "c"], 30, START + 15, salt=1)
    assert len(likely.campaigns()) == 1


def test_slow_sharing_fades_before_it_becomes_a_campaign():
    limits = SharingLimits(half_life=60.0)
    sharing = LinkSharing(limits)
    for n in range(40):
        share(sharing, ["a", "b", "c"], 1, START + 120.0 * n, salt=n)
    assert sharing.campaigns() == []


def test_visitors_and_links_in_memory_are_bounded():
    sharing = LinkSharing(max_visitors=100, max_links=50)
    for n in range(2_000):
        issuer = f"v{n * 7 % 500}"
        sharing.see(visit(f"v{n % 500}", START + n, f"/{n}", issuer), visitor_digest(issuer))
    assert len(sharing) <= 101
    assert len(sharing._links) <= 50


def test_assets_and_unmarked_and_unassigned_links_are_ignored():
    sharing = LinkSharing()
    image = Visit(START, "a", "a", "a", "GET", "/i.png", kind="asset", marker=Marker("page", b"x" * 6, b"p", "/i"))
    entry = Visit(START, "a", "a", "a", "GET", "/")
    prepared = Visit(START, "a", "a", "a", "GET", "/", marker=Marker("page", bytes(6), b"p", "/"))
    for one in (image, entry, prepared):
        assert sharing.see(one, None) is None
    assert len(sharing) == 0


@given(st.floats(0, 50), st.floats(0, 20))
def test_a_poisson_tail_is_a_probability(count, expected):
    assert 0 <= poisson_tail(count, expected) <= 1
    assert poisson_tail(count + 1, expected) <= poisson_tail(count, expected) + 1e-9


def visit(who: str, at: float, target: str, issuer: str) -> Visit:
    return Visit(at, who, who, who, "GET", target, marker=Marker("page", visitor_digest(issuer), b"parent", target))


def share(sharing: LinkSharing, names: list[str], links: int, at: float = START, salt: int = 0) -> None:
    """Each visitor in turn uses a link issued to the next."""
    for n in range(links):
        who, issuer = names[n % len(names)], names[(n + 1) % len(names)]
        sharing.see(visit(who, at + n, f"/{names[0]}/{salt}/{n % PAGES}", issuer), visitor_digest(issuer))
