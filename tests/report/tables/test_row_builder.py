"""Texts become numbers; sessions that sources came with: what begins one, in logs of any kind that has them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hedgerow.core.visit import Visit
from hedgerow.logs.dialect import Dialect
from hedgerow.report.tables.row_builder import OTHERS, InternTable, RowBuilder, SessionCookies
from hedgerow.report.tables.source_tables import Tables

KEEPS, REFUSES, FORGETS = "192.0.2.1", "192.0.2.2", "2001:db8:1:2::/64"
DIALECT = Dialect(cookies=True)
W3C = "#Fields: date time c-ip cs-method cs-uri-stem sc-status cs(Cookie)\n"


def visits(write):
    """One keeps the session that it was given, one comes without, one with another each time."""
    for n in range(10):
        yield write(n, KEEPS, "s-1" if n else "")
        yield write(n, REFUSES, "")
        yield write(n, "2001:db8:1:2::9", f"f-{n}")


def as_json(n, address, session):
    return json.dumps({"ts": n, "ip": address, "uri": f"/{n}", "method": "GET", "session_id": session or None})


def as_w3c(n, address, session):
    return f"2000-10-10 20:55:{n:02} {address} GET /{n} 200 {f'a=b;+sid={session}' if session else '-'}"


def as_pattern(n, address, session):
    return f"{n}|{address}|GET|/{n}|a=b; sid={session}|"


@pytest.mark.parametrize(
    ("head", "write", "dialect"),
    [
        ("", as_json, DIALECT),
        (W3C, as_w3c, DIALECT),
        (
            "",
            as_pattern,
            Dialect("$msec|$remote_addr|$request_method|$uri|$http_cookie|", {"session": "sid"}, cookies=True),
        ),
    ],
    ids=["json", "w3c", "pattern"],
)
def test_who_ignores_cookies_begins_a_session_with_each_page(tmp_path, head, write, dialect):
    path = tmp_path / "log"
    path.write_text(head + "".join(one + "\n" for one in visits(write)))
    dialect.check()
    with Tables([str(path)], memory=400_000_000, dialect=dialect) as tables:
        found = dict(zip(tables.sources, tables.renewed.tolist(), strict=True))
    assert found == {KEEPS: 0.2, REFUSES: 1.0, FORGETS: 1.0}


def visit(session: bytes, kind="page") -> Visit:
    return Visit(0.0, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/", kind, linked=(session,) if session else ())


def test_parts_of_a_log_give_what_all_of_it_gives():
    parts = [[visit(b"a"), visit(b"b"), visit(b"c", "asset")], [visit(b""), visit(b"a"), visit(b"a")]]
    whole, joined = SessionCookies(), SessionCookies()
    for part in parts:
        alone = SessionCookies()
        for one in part:
            whole.note(one, 7)
            alone.note(one, 7)
        joined.add(alone.sessions)
    assert joined.sessions == whole.sessions == {7: (4, [b"a", b"b"])}
    assert whole.renewed(np.array([7], np.uint64), np.array([5])).tolist() == [0.6]


@pytest.mark.parametrize("cookies", [SessionCookies(), SessionCookies(most=3)], ids=["nobody comes back", "too many"])
def test_nothing_is_said_where_nothing_can_be(cookies):
    some = [visit(b"%d" % n) for n in range(9)] + [visit(b"0") for _ in range(9 if cookies._left < 9 else 1)]
    for one in some:
        cookies.note(one, 7)
    assert np.isnan(cookies.renewed(np.array([7], np.uint64), np.array([len(some)]))).all()


def test_only_so_many_texts_are_kept():
    table = InternTable(most=4)
    assert [table.number(text) for text in (b"", b"a", b"b", b"c", b"a", b"d")] == [0, 2, 3, OTHERS, 2, OTHERS]
    assert table.keys == table.texts[2:] == [b"a", b"b"]


def test_names_of_many_sources_are_those_of_each():
    for by in ("visitor", "network"):
        builder = RowBuilder(by)
        sources = sorted({builder.source(name, "192.0.2.1") for name in ("192.0.2.0", "host", "::1", "10.0.0.0")})
        assert builder.names(np.array(sources, np.uint64)) == [builder.name(source) for source in sources]
