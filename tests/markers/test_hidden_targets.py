"""Targets of hidden links."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.markers.hidden_targets import hidden_targets

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


@given(_pages, _targets, st.booleans())
def test_targets_are_new_distinct_and_on_this_site(page, linked, more_follow):
    targets = list(islice(hidden_targets(page, linked, more_follow=more_follow), 30))
    assert len(set(targets)) == 30
    assert set(targets).isdisjoint(linked)
    assert all(target.startswith(b"/") and not target.startswith(b"//") for target in targets)


@given(_targets)
def test_everybody_gets_the_same(linked):
    assert [*islice(hidden_targets(b"/p", linked), 5)] == [*islice(hidden_targets(b"/p", linked), 5)]


def test_starts_and_ends_of_links_are_combined():
    linked = [b"/wiki/index.php?title=Cat", b"/wiki/index.php?title=Dog"]
    assert next(hidden_targets(b"/", linked)).startswith(b"/wiki/index.php?title=")
