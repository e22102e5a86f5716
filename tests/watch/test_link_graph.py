"""Link records behave like an ordered dictionary, within bounds."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.watch.link_graph import LinkUsers, NodeSnapshot, VisitorNode

VISITORS = [bytes([0, n, 0, n, 0, 0]) for n in range(80)]
visitors = st.sampled_from(VISITORS)


@given(st.lists(st.tuples(st.sampled_from([0, 1, 256, 65_536, *range(40)]), st.integers(0, 2**32 - 1), visitors)))
def test_used_links_are_listed_with_the_latest_last(used_links):
    """Link numbers that occur inside other records do not match."""
    node, expected = VisitorNode(0.0), OrderedDict()
    for link, at, issuer in used_links:
        node.add_used_link(link, float(at), issuer)
        expected.pop(link, None)
        expected[link] = (link, at, issuer)
    assert list(node.used_links()) == list(expected.values())[-32:]


@given(st.lists(st.tuples(visitors, st.integers(0, 2**32 - 1)), max_size=120))
def test_users_of_own_links_are_listed_with_the_latest_last(users):
    node, expected = VisitorNode(0.0), OrderedDict()
    for user, at in users:
        node.add_user(user, at + 0.5)
        expected.pop(user, None)
        expected[user] = (user, at)
    assert list(node.users()) == list(expected.values())[-64:]


def test_a_node_survives_serialisation():
    node, again = VisitorNode(5.0), VisitorNode(0.0)
    node.name, node.pages = "192.0.2.1", 7.5
    node.add_used_link(1, 3.0, VISITORS[1])
    node.add_user(VISITORS[2], 4.0)
    kept = NodeSnapshot.from_bytes(node.to_bytes())
    assert kept is not None
    again.restore(kept)
    assert again.to_bytes() == node.to_bytes()


def test_a_link_weighs_less_with_each_user_and_nothing_once_it_is_public():
    links = LinkUsers(10)
    weight = []
    for visitor in VISITORS[:4]:
        assert links.add(7, visitor)
        weight.append(links.weight(7))
    assert weight == [1, 1 / 2, 1 / 3, 0]
    assert not links.add(7, VISITORS[0])


def test_least_recently_used_links_are_forgotten():
    links = LinkUsers(128)
    for link in range(128):
        links.add(link, VISITORS[0])
    links.add(0, VISITORS[1])
    for link in range(128, 140):
        links.add(link, VISITORS[0])
    assert len(links) <= 128
    assert links.weight(0) == 1 / 2
    assert links.weight(1) == 0
    assert links.weight(139) == 1
