"""Networks that hold several sources and hardly any people, next to a plain count of each."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.report.campaigns.dense_networks import full, network_of

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
