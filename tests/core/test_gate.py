"""The gate: from a request to a visit, from a visit to a decision and a line of the ledger."""

from __future__ import annotations

import logging
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving import KEY, START, Entries, settings
from hedgerow.core.address import Proxies
from hedgerow.core.gate import Gate, run_now
from hedgerow.core.ledger import NoLedger
from hedgerow.errors import StoreError
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.markers.token import Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.request.account import Accounts
from hedgerow.request.bots import Bot, Bots
from hedgerow.request.identify import Identifier
from hedgerow.web.gate import build_gate, day_of
from hedgerow.web.paths import ledger_path, state_directory
from hedgerow.web.stores import build_token_codecs

SEALS = TokenCodecs([Key(1, KEY, 0.0)])
SEAL = SEALS.of("example.org")
TOKEN = SEAL.seal("trap", visitor_digest("192.0.2.1"), page_digest("/"), b"\0\7").decode()
SMALL = "[policy]\nsuspects = 'refuse'\n[density]\nwindows = [{ count = 2, seconds = 10.0 }]\n"


def identifier(**parts) -> Identifier:
    return Identifier(tokens=SEALS, prefix=parts.pop("prefix", "/~"), **parts)


def gate(text: str = SMALL) -> Gate:
    return build_gate(settings(text), tokens=SEALS, ledger=Entries())


def test_a_visit_has_all_that_the_request_says():
    who = identifier(
        proxies=Proxies(["10.0.0.0/8"]), accounts=Accounts(header="x-user"), bots=Bots([Bot("b", ("2001:db8::/32",))])
    )
    headers = [
        (b"host", b"example.org"), (b"user-agent", b"caf\xe9"), (b"referer", b"http://example.org/a"),
        (b"x-user", b"ann"), (b"x-forwarded-for", b"6.6.6.6"), (b"x-forwarded-for", b"2001:db8::5"),
        (b"sec-purpose", b"prefetch"),
    ]  # fmt: skip
    visit = who.visit(START, "10.0.0.1", "GET", f"/~{TOKEN}", headers)
    assert msgspec.structs.asdict(visit) == {
        "at": START, "address": "2001:db8::5", "visitor": "account:ann", "prefix": "2001:db8::/64", "method": "GET",
        "target": f"/~{TOKEN}", "kind": "prefetch", "account": "ann", "host": "example.org", "user_agent": "caf\xe9",
        "referrer": "http://example.org/a", "origin": "same", "prefetch": True, "bot": "b",
        "marker": SEAL.unseal(TOKEN), "status": 0, "raw_target": "", "tampered": False, "linked": (),
        "claim": "", "proof": "", "anomalies": ("no-accept", "no-language"), "fingerprint": "",
        "old_http": False,
    }  # fmt: skip


def test_a_referrer_is_known_without_its_marker_under_any_prefix():
    token = SEAL.seal("page", visitor_digest("192.0.2.1"), page_digest("/"), b"/a?b=c").decode()
    for prefix in ("/~", "/go/"):
        headers = [(b"host", b"example.org"), (b"referer", f"http://example.org{prefix}{token}".encode())]
        visit = identifier(prefix=prefix).visit(START, "192.0.2.1", "GET", "/", headers)
        assert visit.referrer == "http://example.org/a?b=c"


@given(
    st.integers(0, 4_000_000_000).map(lambda n: n + 0.75),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Africa/Monrovia"]),
)
def test_the_day_is_that_of_the_clock_there(at, name):
    assert day_of(ZoneInfo(name))(at) == datetime.fromtimestamp(at, ZoneInfo(name)).toordinal()


def test_nothing_is_believed_from_a_stranger():
    who = identifier(proxies=Proxies(["10.0.0.0/8"]), accounts=Accounts(header="x-user"))
    visit = who.visit(START, "192.0.2.1", "GET", "/", [(b"x-forwarded-for", b"6.6.6.6"), (b"x-user", b"admin")])
    assert (visit.address, visit.visitor, visit.account) == ("192.0.2.1", "192.0.2.1", "")


@pytest.mark.parametrize("peer", ["192.0.2.1", "::ffff:192.0.2.1", "::FFFF:c000:0201"])
def test_one_address_is_one_visitor_however_it_is_written(peer):
    assert identifier().visit(START, peer, "GET", "/", []).visitor == "192.0.2.1"


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (f"/~{TOKEN}", True),
        (f"/%7E{TOKEN}", True),
        (f"/%7e{TOKEN}?x=1", True),
        (f"/~%{ord(TOKEN[0]):x}{TOKEN[1:]}", False),
        (f"/%7E%{ord(TOKEN[0]):x}{TOKEN[1:]}", True),
        (f"/~{TOKEN}?", True),
        (f"/~{TOKEN}/", False),
        (f"//~{TOKEN}", False),
        (f"/x/~{TOKEN}", False),
        ("/~", False),
        ("/~ann/", False),
        ("/%", False),
        ("/%7", False),
        ("/%7E", False),
        ("", False),
    ],
)
def test_the_marker_in_a_target(target, found):
    assert (identifier().unmark(target, "example.org")[1] == SEAL.unseal(TOKEN)) is found


def test_another_prefix():
    assert identifier(prefix="/t/x-").unmark(f"/t/x-{TOKEN}", "example.org")[1] is not None
    assert identifier(prefix="/t/x-").unmark(f"/t%2Fx-{TOKEN}", "example.org")[1] is not None
    assert identifier(prefix="/t/x-").unmark(f"/~{TOKEN}", "example.org")[1] is None


def test_deciding_counts_and_blocks_and_says_so_once(caplog):
    one = gate()
    visit = one.identifier.visit(START, "192.0.2.1", "GET", "/", [(b"accept", b"text/html")])
    with caplog.at_level(logging.INFO):
        actions = [run_now(one.decide(visit)).action for _ in range(5)]
    assert actions == ["pass", "pass", "refuse", "refuse", "refuse"]
    assert one.blocked == 1
    assert [record.getMessage() for record in caplog.records] == [
        "blocked '192.0.2.1': 'More than 2 pages in 10 seconds.'"
    ]


def test_what_is_logged_cannot_forge_a_line(caplog):
    one = build_gate(settings(SMALL), tokens=SEALS, ledger=NoLedger(), account_of=lambda _: "a\nINFO forged\x1b[2J")
    visit = one.identifier.visit(START, "192.0.2.1", "GET", "/", [(b"accept", b"text/html")])
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            run_now(one.decide(visit))
    assert caplog.records
    assert all(record.getMessage().isprintable() for record in caplog.records)


def test_a_visit_is_corrected_and_decided_anew():
    one = gate()
    image = one.identifier.visit(START, "192.0.2.1", "GET", "/", [(b"sec-fetch-dest", b"image")])
    for action in ("pass", "pass", "refuse"):
        assert run_now(one.decide(image)).action == "pass"
        corrected, decision = run_now(one.reclassify(image, "page"))
        assert (corrected.kind, decision.action) == ("page", action)
    assert one.blocked == 1


def test_a_record_is_an_entry():
    one = gate()
    visit = one.identifier.visit(START, "192.0.2.1", "GET", "/", [])
    decision = run_now(one.decide(visit))
    one.record(visit, decision, 200, "ABCD")
    (entry,) = one.ledger
    assert (entry.visit, entry.decision, entry.status, entry.reference) == (visit, decision, 200, "ABCD")


# ---- Build


def test_where_key_and_ledger_live(monkeypatch):
    assert str(state_directory(settings("directory = '/x'"))) == "/x"
    assert str(ledger_path(settings("directory = '/x'"))) == "/x/ledger.sqlite"
    assert str(ledger_path(settings("directory = '/x'\n[ledger]\npath = '/y/z'"))) == "/y/z"
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("XDG_STATE_HOME", "")
    assert str(state_directory(settings())) == "/home/ann/.local/state/hedgerow"
    assert str(state_directory(settings("directory = '~/x'"))) == "/home/ann/x"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert str(state_directory(settings())) == "/state/hedgerow"
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/hedgerow:/var/lib/other")
    assert str(state_directory(settings())) == "/var/lib/hedgerow"


def test_a_gate_from_settings_alone(tmp_path):
    text = f"directory = '{tmp_path / 'new' / 'folder'}'\n"
    one = build_gate(settings(text))
    assert isinstance(one.ledger, SqliteLedger)
    one.ledger.close()
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == ["hedgerow.key", "ledger.sqlite"]
    assert isinstance(build_gate(settings(text + "[ledger]\nenabled = false")).ledger, NoLedger)


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot make the directory"):
        build_token_codecs(settings(f"directory = '{tmp_path / 'file' / 'x'}'"))


def test_what_is_off_is_off():
    off = gate("[density]\nenabled = false\n[traps]\nenabled = false")
    visit = off.identifier.visit(START, "192.0.2.1", "GET", f"/~{TOKEN}", [(b"host", b"example.org")])
    assert {run_now(off.decide(visit)).action for _ in range(500)} == {"pass"}
    assert len(off.state) == 0


def test_networks_are_counted_only_where_a_window_asks():
    by_network = gate(
        "[policy]\nsuspects = 'refuse'\n[density]\nwindows = [{ count = 2, seconds = 10, by = 'network' }]"
    )
    actions = [
        run_now(by_network.decide(by_network.identifier.visit(START, f"192.0.2.{n}", "GET", "/", []))).action
        for n in range(5)
    ]
    assert actions == ["pass", "pass", "refuse", "refuse", "refuse"]
    stranger = by_network.identifier.visit(START, "198.51.100.7", "GET", "/", [])
    assert run_now(by_network.decide(stranger)).action == "pass"
    for _ in range(5):
        # A client of a Unix socket or a host name in a log has no network, and none is made up for it.
        unknown = run_now(by_network.decide(by_network.identifier.visit(START, "host.example.org", "GET", "/", [])))
    assert unknown.action == "pass"
