"""Who borrowed from whom, in records: as a dictionary would have it, within bounds."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.watch.link_graph import LinkGraph, Node, NodeSnapshot

VISITORS = [bytes([0, n, 0, n, 0, 0]) for n in range(80)]
who = st.sampled_from(VISITORS)


@given(st.lists(st.tuples(st.sampled_from([0, 1, 256, 65_536, *range(40)]), st.integers(0, 2**32 - 1), who)))
def test_what_was_borrowed_is_told_with_the_latest_last(borrowed):
    """Names of links that stand inside other records are none."""
    node, expected = Node(0.0), OrderedDict()
    for link, at, issuer in borrowed:
        node.borrow(link, float(at), issuer)
        expected.pop(link, None)
        expected[link] = (link, at, issuer)
    assert list(node.borrowed()) == list(expected.values())[-32:]


@given(st.lists(st.tuples(who, st.integers(0, 2**32 - 1)), max_size=120))
def test_to_whom_was_lent_is_told_with_the_latest_last(lent):
    node, expected = Node(0.0), OrderedDict()
    for user, at in lent:
        node.lend(user, at + 0.5)
        expected.pop(user, None)
        expected[user] = (user, at)
    assert list(node.lent()) == list(expected.values())[-64:]


def test_a_visitor_is_kept_with_its_ties():
    node, again = Node(5.0), Node(0.0)
    node.name, node.pages = "192.0.2.1", 7.5
    node.borrow(1, 3.0, VISITORS[1])
    node.lend(VISITORS[2], 4.0)
    kept = NodeSnapshot.read(node.to_bytes())
    assert kept is not None
    again.restore(kept)
    assert again.to_bytes() == node.to_bytes()


def test_a_link_counts_less_the_more_use_it_and_nothing_once_it_is_public():
    links = LinkGraph(10)
    worth = []
    for visitor in VISITORS[:4]:
        assert links.use(7, visitor)
        worth.append(links.worth(7))
    assert worth == [1, 1 / 2, 1 / 3, 0]
    assert not links.use(7, VISITORS[0])


def test_links_that_were_not_used_for_the_longest_are_forgotten():
    links = LinkGraph(128)
    for link in range(128):
        links.use(link, VISITORS[0])
    links.use(0, VISITORS[1])
    for link in range(128, 140):
        links.use(link, VISITORS[0])
    assert len(links) <= 128
    assert links.worth(0) == 1 / 2
    assert links.worth(1) == 0
    assert links.worth(139) == 1
