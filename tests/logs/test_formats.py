"""Lines and rows become visits: samples with the expected visit, and properties for arbitrary bytes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from time import process_time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.request_kind import kind_of
from hedgerow.core.visit import Marker, Visit
from hedgerow.logs.formats import UNKNOWN, Format, LineParser, detect_plain_format, readable, unescape
from hedgerow.logs.ledger_rows import LEDGER_COLUMNS, visit_of_row
from hedgerow.logs.reader import MAX_LINE_BYTES
from hedgerow.request.bots import Bot, Bots, BotVerifier

SAMPLES = Path(__file__).parent / "samples"
LINE = b'192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "Examplebot/1"'


def samples():
    for path in sorted(SAMPLES.glob("*.log")):
        form = Format(path.stem.removesuffix("-fractions"), exact="fractions" in path.stem)
        expected: str | None = None
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            if line.startswith(b"#"):
                comment = line[1:].strip().decode()
                expected = comment if comment == "bad" or comment.startswith("visit:") else None
            elif expected is not None:
                yield pytest.param(form, line, expected, id=f"{path.stem}:{number}")
                expected = None


def test_there_are_samples():
    assert len(list(samples())) > 30


@pytest.mark.parametrize(("form", "line", "expected"), list(samples()))
def test_a_sample_line_is_parsed_as_expected(form, line, expected):
    visit = LineParser(form)(line)
    if expected == "bad":
        assert visit is None
        return
    fields = json.loads(expected.removeprefix("visit:"))
    fields.setdefault("prefix", fields["address"])
    fields.setdefault("visitor", fields["prefix"])
    assert visit == Visit(**fields)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.log")), ids=lambda path: path.stem)
def test_the_format_is_detected_from_the_lines(path):
    found = detect_plain_format([line for line in path.read_bytes().split(b"\n") if not line.startswith(b"#")])
    assert found == Format(path.stem.removesuffix("-fractions"), exact="fractions" in path.stem)


@pytest.mark.parametrize("lines", [[], [b""], [b"{}", b"\x00\xff"], [b"-"]])
def test_text_that_is_no_log_is_unknown(lines):
    assert detect_plain_format(lines) is UNKNOWN


@given(st.binary(max_size=300))
def test_arbitrary_bytes_give_a_visit_or_none(line):
    for name in ("combined", "vhost-combined"):
        assert isinstance(LineParser(Format(name))(line), Visit | None)
    detect_plain_format([line])


@given(st.lists(st.sampled_from([LINE, b'"', b"\\", b" ", b"[", b"]", b"-", LINE[:60], LINE[40:], b"\xff"])))
def test_pieces_of_lines_in_any_order_give_a_visit_or_none(pieces):
    assert isinstance(LineParser(Format("combined"))(b"".join(pieces)), Visit | None)


@pytest.mark.parametrize(
    "piece",
    [b" [", b' [01/Jan/2026:00:00:00 +0000] "', b'\\"', b'" "', b" HTTP/", b"a ", b"\\", b'GET / "', b"- "],
)
def test_every_line_is_parsed_in_linear_time(piece):
    """The longest line of repeated *piece* takes milliseconds: no regular expression backtracks."""
    line = (b"192.0.2.1 - " + piece * MAX_LINE_BYTES)[:MAX_LINE_BYTES]
    request = b'192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] "GET '
    began = process_time()
    for name in ("combined", "vhost-combined"):
        LineParser(Format(name))(line)
        LineParser(Format(name))((request + piece * MAX_LINE_BYTES)[:MAX_LINE_BYTES])
    assert process_time() - began < 30


def escaped(text: str) -> bytes:
    """As Apache's ap_escape_logitem does."""
    out = bytearray()
    short = {8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
    for byte in text.encode("latin-1"):
        if byte in short:
            out += short[byte]
        elif byte < 32 or byte > 126:
            out += b"\\x%02x" % byte
        else:
            out.append(byte)
    return bytes(out)


def combined(visit: Visit, zone: timezone) -> bytes:
    """The line that Apache would have written for *visit*."""
    when = datetime.fromtimestamp(visit.at, zone).strftime("%d/%b/%Y:%H:%M:%S %z")
    return b'%b - %b [%b] "%b %b HTTP/1.1" %d 17 "%b" "%b"' % (
        visit.address.encode(),
        escaped(visit.account) or b"-",
        when.encode(),
        visit.method.encode(),
        escaped(visit.target),
        visit.status,
        escaped(visit.referrer) or b"-",
        escaped(visit.user_agent) or b"-",
    )


LATIN = st.text(st.characters(max_codepoint=255))
HEADER = LATIN.filter(lambda text: text != "-")
METHOD = st.sampled_from(["GET", "POST", "HEAD", "OPTIONS", "X-ODD", "get"])
ADDRESS = st.sampled_from(["192.0.2.1", "198.51.100.254", "2001:db8::", "2001:db8:0:1:2:3:4:5"])


@given(
    at=st.integers(0, 4_102_444_800),
    address=ADDRESS,
    method=METHOD,
    target=LATIN.filter(lambda text: " HTTP/" not in text),
    account=HEADER.filter(lambda text: text != '""' and text.strip() == text),
    referrer=HEADER,
    user_agent=HEADER,
    status=st.integers(100, 999).filter(lambda status: status != 401),
    minutes=st.integers(-12 * 60, 14 * 60),
)
def test_a_visit_written_as_a_combined_line_is_parsed_back(
    at, address, method, target, account, referrer, user_agent, status, minutes
):
    prefix = {"2001:db8::": "2001:db8::/64", "2001:db8:0:1:2:3:4:5": "2001:db8:0:1::/64"}.get(address, address)
    visit = Visit(
        at=float(at),
        address=address,
        visitor=f"account:{account}" if account else prefix,
        prefix=prefix,
        method=method,
        target=target,
        kind="asset" if status == 206 else kind_of(method, target),
        account=account,
        referrer=referrer,
        user_agent=user_agent,
        status=status,
    )
    line = combined(visit, timezone(timedelta(minutes=minutes)))
    assert LineParser(Format("combined"), accounts=True)(line) == visit


def test_a_user_is_an_account_only_if_the_server_checked_it():
    line = LINE.replace(b" - - ", b" - Jo Doe ")
    assert LineParser(Format("combined"))(line).account == ""
    trusted = LineParser(Format("combined"), accounts=True)
    assert trusted(line).visitor == "account:Jo Doe"
    assert trusted(line.replace(b" 200 ", b" 401 ")).visitor == "192.0.2.1"
    assert trusted(line.replace(b"Jo Doe", b'""')).visitor == "192.0.2.1"


def test_verified_bots_are_named():
    bots = Bots([Bot("example", ("192.0.2.0/24",), "examplebot")])
    assert LineParser(Format("combined"), bot_verifier=BotVerifier(bots))(LINE).bot == "example"
    assert (
        LineParser(Format("combined"), bot_verifier=BotVerifier(bots))(LINE.replace(b"192.0.2.1", b"198.51.100.1")).bot
        == ""
    )


def test_a_carriage_return_at_the_end_of_a_line_is_ignored():
    assert LineParser(Format("combined"))(LINE + b"\r") == LineParser(Format("combined"))(LINE)


@given(LATIN)
def test_escapes_are_undone(text):
    assert unescape(escaped(text).decode("ascii")) == text


def row_of(visit: Visit, observed: str = "") -> list[object]:
    fields = {**msgspec.structs.asdict(visit), "observed": observed}
    marker = visit.marker
    fields |= {"marker_kind": None, "minted_for": None, "parent": None, "marker_target": None}
    fields["linked"] = b"".join(visit.linked)
    fields |= {"signs": " ".join(visit.anomalies), "asked": visit.raw_target}
    if marker is not None:
        fields |= {"marker_kind": marker.kind, "minted_for": marker.issued_to, "parent": marker.parent}
        fields["marker_target"] = marker.target
    return [fields[name] for name in LEDGER_COLUMNS]


VISIT = Visit(
    at=1767225600.123456,
    address="2001:db8::7",
    visitor="account:jo",
    prefix="2001:db8::/64",
    method="GET",
    target="/~token",
    kind="call",
    account="jo",
    host="example.org",
    user_agent="Mozilla/5.0",
    referrer="https://example.org/",
    origin="same",
    prefetch=True,
    bot="example",
    marker=Marker("trap", b"123456", b"654321", "\0\1"),
    status=403,
    raw_target="/~token",
    tampered=True,
    linked=(b"abcdef", b"123456"),
    claim="Googlebot",
    proof="false",
    anomalies=("no-accept", "no-language"),
    fingerprint="t13d1516h2_8daaf6152771_b186095e22b6",
)


def test_a_row_of_the_ledger_gives_the_visit_back():
    assert visit_of_row(row_of(VISIT)) == VISIT
    bare = msgspec.structs.replace(
        VISIT, marker=None, kind="page", prefetch=False, raw_target="", tampered=False, linked=()
    )
    assert visit_of_row(row_of(bare)) == bare
    assert visit_of_row(row_of(bare, "links")) == bare
    # Without marked links, their absence must mean nothing in a replay.
    unmarked = visit_of_row(row_of(bare, "neutral"))
    assert unmarked == msgspec.structs.replace(bare, anomalies=(*bare.anomalies, "unmarked-site"))


@pytest.mark.parametrize(
    ("column", "value"),
    [("at", "x"), ("at", None), ("kind", "thing"), ("origin", 3), ("target", None), ("status", None),
     ("marker_kind", "odd"), ("parent", None), ("minted_for", "text"), ("marker_target", 3), ("asked", None),
     ("linked", None), ("linked", "text")],
)  # fmt: skip
def test_an_invalid_row_is_bad(column, value):
    row = row_of(VISIT)
    row[LEDGER_COLUMNS.index(column)] = value
    assert visit_of_row(row) is None


@given(st.text())
def test_readable_text_has_no_control_characters(text):
    shown = readable(text)
    assert shown.isprintable()
    shown.encode()


def test_readable_text_is_decoded_as_utf_8():
    assert readable("caf\u00c3\u00a9") == "café"
    assert readable("caf\u00e9") == "café"
    assert readable("a\x1b[31m\u202e\x9b\n") == "a\\x1b[31m\\u202e\\x9b\\n"


def test_time_zones_are_respected():
    moment = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    for hours in (-12, -7, 0, 2, 14):
        when = moment.astimezone(timezone(timedelta(hours=hours))).strftime("%d/%b/%Y:%H:%M:%S %z")
        line = LINE.replace(b"01/Jan/2026:00:00:00 +0000", when.encode())
        assert LineParser(Format("combined"))(line).at == moment.timestamp()


def test_an_address_in_front_is_a_client_behind_a_proxy_not_a_virtual_host():
    rest = '- - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326 "-" "curl/7"'
    lines = [f"192.0.2.{n} 10.0.0.1 {rest}".encode() for n in range(9)]
    form = detect_plain_format(lines)
    assert form.name == "combined"
    assert [visit.address for line in lines if (visit := LineParser(form)(line))] == [f"192.0.2.{n}" for n in range(9)]
    # The site that is asked for by its address has one, and many visitors.
    assert detect_plain_format([f"10.0.0.1 192.0.2.{n} {rest}".encode() for n in range(9)]).name == "vhost-combined"
