"""Uses of links by strangers: a posted link is open to all, a page's links are not divided by a crew."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.request.link_uses import LinkUses, RecentNames, UsedLink
from property_tests import examples

ISSUER, PAGE = b"issuer", b"parent"
ALLOWED = 9


def link(number: int, issuer: bytes = ISSUER, page: bytes = PAGE) -> UsedLink:
    return UsedLink(issuer, page, number.to_bytes(6, "big"))


def who(number: int) -> bytes:
    return number.to_bytes(6, "big")


@examples(100)
@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=300))
def test_a_posted_link_is_never_refused(strangers):
    uses = LinkUses(1)
    assert all(uses.use(link(7), who(stranger), 1.0) for stranger in strangers)


def test_strangers_who_divide_the_links_of_a_page_are_refused_from_the_tenth_on():
    uses = LinkUses(ALLOWED)
    assert [uses.use(link(n), who(n), 1.0) for n in range(15)] == [True] * ALLOWED + [False] * 6


def test_a_refused_link_stays_refused_from_other_addresses():
    uses = LinkUses(ALLOWED)
    for n in range(ALLOWED):
        uses.use(link(n), who(n), 1.0)
    assert not any(uses.use(link(99), who(n), 1.0) for n in range(100, 120))


def test_one_stranger_may_use_many_links_of_a_page():
    uses = LinkUses(ALLOWED)
    assert all(uses.use(link(n), who(1), 1.0) for n in range(30))


def test_strangers_with_several_links_each_are_refused_sooner():
    uses = LinkUses(ALLOWED)
    came = [[uses.use(link(10 * n + m), who(n), 1.0) for m in range(4)] for n in range(6)]
    assert came[:3] == [[True] * 4] * 3
    assert came[3:] == [[False] * 4] * 3


def test_the_pages_of_one_visitor_are_counted_together():
    uses = LinkUses(ALLOWED)
    came = [uses.use(link(n, page=b"page%02d" % (n // 5)), who(n), 1.0) for n in range(40)]
    assert came == [True] * 2 * ALLOWED + [False] * 22


def test_links_that_several_use_make_room():
    uses, chance, refused = LinkUses(ALLOWED), random.Random(1), 0
    for reader in range(300):
        refused += not uses.use(link(chance.randrange(15)), who(reader), 1.0)
    assert refused == 0


def test_what_a_visitor_with_a_clearance_used_is_open_to_all():
    uses = LinkUses(1)
    assert not uses.is_vouched(link(5))
    uses.vouch(link(5), 1.0)
    assert uses.is_vouched(link(5))
    assert not uses.is_vouched(link(6))
    uses.use(link(1), who(1), 1.0)
    assert not uses.use(link(2), who(2), 1.0)
    assert uses.use(link(5), who(2), 1.0)


def test_a_stranger_that_obtains_a_clearance_does_not_count_any_more():
    uses = LinkUses(2)
    assert [uses.use(link(n), who(n), 1.0) for n in range(3)] == [True, True, False]
    uses.clear(who(0))
    assert uses.use(link(2), who(2), 1.0)


def test_a_record_lasts_a_day_and_their_number_is_bounded():
    uses = LinkUses(1, most=10)
    assert [uses.use(link(n), who(n), 1.0) for n in range(2)] == [True, False]
    assert uses.use(link(2), who(2), 90_000.0)
    for n in range(100):
        uses.use(link(n, issuer=who(n)), who(n), 1.0)
    assert len(uses) == 10


def test_names_that_are_old_are_forgotten():
    names = RecentNames(10)
    for n in range(25):
        names.add(who(n))
        names.add(who(n))
    assert who(24) in names
    assert who(11) in names
    assert who(5) not in names
