"""A client that the compiled parser takes is one that the reference parser takes, too."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.logs.formats import address_of, is_client
from hedgerow.report.tables.line_parser import OTHER_CLIENT, ipv4, is_name

CLIENTS = st.text(st.sampled_from("aFgNov019.:-_\xe9,<"), min_size=1, max_size=8)


@given(CLIENTS)
@example("Nov")
@example("Nova")
@example("::1")
@example("1:2")
@example("999.0.0.1")
@example("host-1.example")
def test_a_plain_client_is_a_client(text: str) -> None:
    data = np.frombuffer(text.encode("latin-1") + b" ", np.uint8)
    plain = ipv4.compiled(data, 0, len(text)) != OTHER_CLIENT or is_name.compiled(data, 0, len(text))
    assert not plain or is_client(address_of(text))


def test_common_clients_are_plain() -> None:
    for text, plain in [
        ("host.example.org", True),
        ("2001:db8::1", True),
        ("localhost", True),
        ("Nov", False),
        ("-", False),
    ]:
        assert is_name(text.encode(), 0, len(text)) is plain
