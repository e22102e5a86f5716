"""Targets of hidden links."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.hidden_targets import HiddenTargets

_targets = st.lists(
    st.builds(
        lambda parts, query: ("/" + "/".join(parts) + query).encode(),
        st.lists(st.sampled_from(["a", "b", "docs", "x.html", ""]), max_size=3),
        st.sampled_from(["", "?id=1", "?id=2", "?a=1&b=2"]),
    ),
    unique=True,
    max_size=12,
)


_pages = st.sampled_from([b"/docs/page.html", b"/", b"//", b"//docs/page.html", b"///x?a=1"])


def chosen(page, linked, count, *, more_follow=False):
    targets = HiddenTargets(page, more_follow=more_follow)
    return [targets.choose(dict.fromkeys(linked), linked[number : number + 4]) for number in range(count)]


@given(_pages, _targets, st.booleans())
def test_targets_are_new_distinct_and_on_this_site(page, linked, more_follow):
    targets = chosen(page, linked, 30, more_follow=more_follow)
    assert len(set(targets)) == 30
    assert set(targets).isdisjoint(linked)
    assert page not in targets
    assert all(target.startswith(b"/") and not target.startswith(b"//") for target in targets)


@given(_targets)
def test_everybody_gets_the_same(linked):
    assert chosen(b"/p", linked, 5) == chosen(b"/p", linked, 5)


def test_starts_and_ends_of_links_are_combined():
    linked = [b"/wiki/index.php?title=Cat", b"/wiki/index.php?title=Dog"]
    assert all(target.startswith(b"/wiki/index.php?title=") for target in chosen(b"/", linked, 3))
    assert chosen(b"/", [b"/docs/a.html", b"/blog/b.html"], 1)[0] in {b"/docs/b.html", b"/blog/a.html"}


def test_a_link_that_may_follow_is_not_taken():
    linked = [b"/docs/a.html", b"/blog/b.html"]
    assert chosen(b"/", linked, 1, more_follow=True)[0] not in {b"/docs/b.html", b"/blog/a.html"}
