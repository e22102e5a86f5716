"""Campaigns of visitors that share links, found by visits through the real gate; and people, who are none."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from driving import START
from hedgerow.core.visit import Marker, Visit
from hedgerow.markers.token import visitor_digest
from hedgerow.watch.link_sharing import _LEAST_PAGES, LinkSharing, SharingLimits, tail

from .sharing_site import PAGES, SharedSite


def crawl(site: SharedSite, workers: int, requests: int, seed: int, wait: float = 1.0) -> int | None:
    """Workers that take links out of one pool; after how many requests the first campaign was found."""
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
    """People who follow their own links, and with a chance of *share* one that somebody has sent them."""
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
    assert "links that were minted for one another" in campaign.text


def test_members_are_challenged_together():
    site = SharedSite()
    assert crawl(site, 10, 100, 1) is not None
    (campaign,) = site.campaigns
    for member in campaign.members:
        decision, _ = site.get(member, "/", 0.0)
        assert (decision.action, decision.code) == ("challenge", "suspect")
        assert "campaign" in decision.evidence[-1].text
    assert site.get("203.0.113.5")[0].action == "pass"


def test_where_it_is_only_recorded_nobody_is_challenged():
    site = SharedSite("[campaigns]\nresponse = 'record'")
    assert crawl(site, 10, 40, 1) is not None
    (campaign,) = site.campaigns
    assert {site.get(member)[0].action for member in campaign.members} == {"pass"}
    scores = dict(site.gate.state.scores())
    assert all(("campaign", 1) in scores[member].reasons for member in campaign.members)


def test_each_address_used_once_is_found_all_the_same():
    """As those do who rent addresses: each asks for one page, by a link of the one before it."""
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


def test_one_that_hands_out_links_to_others_is_found():
    site = SharedSite()
    scout, workers, links = "198.51.100.1", ["198.51.100.7", "198.51.100.8", "198.51.100.9"], []
    links += site.get(scout)[1]
    for _ in range(4):
        links += site.get(scout, links.pop(0))[1]
    for n in range(24):
        site.get(workers[n % 3], links.pop())
    (campaign,) = site.campaigns
    assert set(campaign.members) == set(workers)


@pytest.mark.no_cover
@pytest.mark.parametrize("share", [0.0023, 0.01, 0.05])
@pytest.mark.parametrize("seed", range(2))
def test_people_who_now_and_then_share_a_link_are_no_campaign(share, seed):
    site = SharedSite()
    browse(site, random.Random(seed), 200, 6_000, share)
    assert site.campaigns == []


def test_a_chat_of_three_that_reads_little_else_is_no_campaign():
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
def test_a_link_that_was_posted_is_no_campaign(posted):
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


def test_two_campaigns_that_meet_are_one():
    sharing = LinkSharing()
    borrow(sharing, ["a", "b", "c"], 30)
    borrow(sharing, ["x", "y", "z"], 30)
    assert len(sharing.campaigns()) == 2
    # One that was in none borrows from both, and lends.
    for n, issuer in enumerate(["a", "x"] * 6):
        found = sharing.see(visit("new", START + 100 + n, f"/n{n}", issuer), visitor_digest(issuer))
        sharing.see(visit(issuer, START + 100 + n, f"/m{n}", "new"), visitor_digest("new"))
        if found is not None and found.merged:
            break
    (campaign,) = sharing.campaigns()
    assert set(campaign.members) == {"a", "b", "c", "x", "y", "z", "new"}
    assert len(found.merged) == 1


def test_campaigns_outlive_a_restart():
    before, after = LinkSharing(), LinkSharing()
    borrow(before, ["a", "b", "c"], 30)
    after.restore(before.campaigns())
    assert after.campaigns() == before.campaigns()
    borrow(after, ["a", "b", "c", "d"], 40, START + 60)
    (campaign,) = after.campaigns()
    assert campaign.id == before.campaigns()[0].id
    assert set(campaign.members) == {"a", "b", "c", "d"}


def restarted(sharing: LinkSharing, store: dict[bytes, tuple[float, bytes]]) -> LinkSharing:
    """The same after a restart: what has changed is kept, and another takes it over."""
    for who, kept in sharing.changed().items():
        store.pop(who, None)
        if kept is not None:
            store[who] = kept
    after = LinkSharing(sharing.limits)
    after.keep()
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
def test_ties_outlive_a_restart(visits, restarts):
    """
    Whenever it is stopped and started again, the same campaigns are found at the same visit.

    Only who has just begun, and is tied to nobody, begins anew.
    """
    straight, kept, store = LinkSharing(), LinkSharing(), {}
    kept.keep()
    for n, (who, issuer, page) in enumerate(visits):
        if n in restarts:
            kept = restarted(kept, store)
            for begun in straight._nodes.keys() - kept._nodes.keys():
                node = straight._nodes.pop(begun)
                assert node.pages < _LEAST_PAGES
                assert not node.tied
        name, owner = f"v{who}", f"v{issuer}"
        seen = visit(name, START + n * 30.0, f"/{page}", owner)
        found = [one.see(seen, visitor_digest(owner) if name != owner else None) for one in (straight, kept)]
        joined = [f and f.joined for f in found]
        assert joined[0] == joined[1]
        if found[0] is not None:
            # What members of a campaign do with links is not kept.
            return


def test_a_restart_in_the_middle_of_a_crawl_hides_nobody():
    straight, stopped = SharedSite(), SharedSite()
    expected = crawl(straight, 10, 60, seed=3)
    stopped.watch.sharing.keep()
    store: dict[bytes, tuple[float, bytes]] = {}
    before = stopped.get

    def get(*arguments):
        stopped.watch.sharing = restarted(stopped.watch.sharing, store)
        return before(*arguments)

    stopped.get = get
    assert crawl(stopped, 10, 60, seed=3) == expected
    assert set(stopped.campaigns[0].members) == set(straight.campaigns[0].members)


def test_what_another_version_wrote_is_no_tie():
    sharing = LinkSharing()
    sharing.restore_ties([(b"who", b"\xff")])
    assert len(sharing) == 0


def test_what_fades_is_gone():
    limits = SharingLimits(half_life=60.0)
    sharing = LinkSharing(limits)
    for n in range(40):
        borrow(sharing, ["a", "b", "c"], 1, START + 120.0 * n, salt=n)
    assert sharing.campaigns() == []


def test_the_memory_is_bounded():
    sharing = LinkSharing(most_visitors=100, most_links=50)
    for n in range(2_000):
        issuer = f"v{n * 7 % 500}"
        sharing.see(visit(f"v{n % 500}", START + n, f"/{n}", issuer), visitor_digest(issuer))
    assert len(sharing) <= 101
    assert len(sharing._links) <= 50


def test_assets_entries_and_prepared_pages_say_nothing():
    sharing = LinkSharing()
    image = Visit(START, "a", "a", "a", "GET", "/i.png", kind="asset", marker=Marker("page", b"x" * 6, b"p", "/i"))
    entry = Visit(START, "a", "a", "a", "GET", "/")
    prepared = Visit(START, "a", "a", "a", "GET", "/", marker=Marker("page", bytes(6), b"p", "/"))
    for one in (image, entry, prepared):
        assert sharing.see(one, None) is None
    assert len(sharing) == 0


@given(st.floats(0, 50), st.floats(0, 20))
def test_a_tail_is_a_probability(count, expected):
    assert 0 <= tail(count, expected) <= 1
    assert tail(count + 1, expected) <= tail(count, expected) + 1e-9


def visit(who: str, at: float, target: str, issuer: str) -> Visit:
    return Visit(at, who, who, who, "GET", target, marker=Marker("page", visitor_digest(issuer), b"parent", target))


def borrow(sharing: LinkSharing, names: list[str], links: int, at: float = START, salt: int = 0) -> None:
    """Each in turn borrows a link from another."""
    for n in range(links):
        who, issuer = names[n % len(names)], names[(n + 1) % len(names)]
        sharing.see(visit(who, at + n, f"/{names[0]}/{salt}/{n % PAGES}", issuer), visitor_digest(issuer))
