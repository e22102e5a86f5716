"""Import of lists: each format as its program writes it, and the faults of lines."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lists import importer as module
from hedgerow.lists.importer import Defaults, ListError, ListImport, detect_format
from hedgerow.lists.model import Listing
from hedgerow.lists.times import iso, parse_duration, parse_time

NOW = 1_800_000_000.0


def read(text: str | bytes, **options) -> tuple[list[Listing], ListImport]:
    defaults = Defaults(NOW, **{name: options.pop(name) for name in ("list", "author", "until") if name in options})
    data = text if isinstance(text, bytes) else text.encode()
    reading = ListImport(io.BufferedReader(io.BytesIO(data)), "list.txt", defaults, **options)
    return list(reading), reading


def subjects(text: str | bytes, **options) -> list[str]:
    return [listing.subject for listing in read(text, **options)[0]]


def fault(text: str | bytes, **options) -> str:
    with pytest.raises(ListError) as error:
        read(text, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_plain_text_is_imported():
    text = """\ufeff# A list
192.0.2.1
  198.51.100.0/24   # scraper, ticket 7
1.10.16.0/20 ; SBL256894
; another comment

account:ann # spam
"agent:*(compatible; #1)*" # quoted
AS64496
"""
    found, reading = read(text, list="white", author="ann", until=NOW + 60)
    assert reading.format == "plain"
    assert [(e.subject, e.reason) for e in found] == [
        ("192.0.2.1", ""), ("198.51.100.0/24", "scraper, ticket 7"), ("1.10.16.0/20", "SBL256894"),
        ("account:ann", "spam"), ("agent:*(compatible; #1)*", "quoted"), ("AS64496", ""),
    ]  # fmt: skip
    assert {(e.list, e.author, e.since, e.until) for e in found} == {("white", "ann", NOW, NOW + 60)}
    assert (reading.entries, reading.bad, reading.bytes_read) == (6, 0, len(text.encode()))


def test_csv_is_imported():
    text = (
        "Subject,reason,list,until\n"
        '192.0.2.1,"a, ""b""",white,2027-02-01T00:00:00Z\n'
        "198.51.100.0/24\n"
        ",,,\n"
        "203.0.113.1,old,black,2020-01-01\n"
    )
    found, reading = read(text)
    assert reading.format == "csv"
    assert found == [
        Listing("white", "192.0.2.1", 'a, "b"', "", NOW, parse_time("2027-02-01T00:00:00Z")),
        Listing("black", "198.51.100.0/24", "", "", NOW, 0.0),
    ]
    assert reading.left_out == {"ended": 1}


@pytest.mark.parametrize(
    "text",
    [
        '[\n{"subject": "192.0.2.1", "until": null},\n{"subject": "192.0.2.2", "reason": "x"}]\n',
        '{"subject": "192.0.2.1"}\n{"subject":"192.0.2.2"}\n',
        ' [{"subject": "192.0.2.1"} , {"subject": "192.0.2.2"} ] ',
    ],
)
def test_json_is_imported(text):
    assert subjects(text) == ["192.0.2.1", "192.0.2.2"]
    for size in (1, 2, 3, 7):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_CHUNK", size)
            assert subjects(text) == ["192.0.2.1", "192.0.2.2"]


@pytest.mark.parametrize("text", ["", "[]", "null", " [ ] \n", "\n\n", "# nothing\n"])
def test_an_empty_file_has_no_entries(text):
    assert subjects(text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("192.0.2.1\nexample.org\n", "list.txt:2: 'example.org' is not an address, network"),
        ("192.0.2.1\n192.0.2.1/24\n", "list.txt:2: '192.0.2.1/24' is not a network; 192.0.2.0/24 is"),
        (b"192.0.2.1\n\xff\n", "list.txt:2: not UTF-8"),
        ('"192.0.2.1\n', "list.txt:1: the closing quote is missing"),
        ("x" * 2_000_000, "list.txt:1: the line is too long"),
        ("subject,until\n192.0.2.1,soon\n", "list.txt:2: 'soon' is not a time"),
        ("subject,list\n192.0.2.1,grey\n", "list.txt:2: 'grey' is not a list"),
        ("subject\n192.0.2.1,1,2\n", "list.txt:2: 3 columns, but the first line has 1"),
        ('[{"subject": 5}]', "list.txt:1: the subject 5 is not text"),
        ('[\n\n{"subject": "x"}]', "list.txt:3: 'x' is not an address"),
        ('[{"subject": "192.0.2.1"}', "list.txt:1: the end of the array is missing"),
        ('[{"subject": "192.0.2.1"}\n{"subject": "192.0.2.2"}]', "list.txt:2: a comma is missing"),
        ('[{"subject": "192.0.2.1"}] x', "list.txt:1: unexpected text after the end of the array"),
        ('[{"subject": "192.0.2.1",}]', "list.txt:1: not JSON"),
        ('[{"subject": "192.0.2.1"}, 5]', "list.txt:1: not an object with a subject"),
        ('[{"x": 1}]', "list.txt:1: neither a subject nor decisions"),
        ("[" * 100_000, "list.txt:1: not JSON"),
        (b'[{"subject": "\xff"}]', "list.txt:1: not UTF-8"),
        ("duration,scope,value\nsoon,ip,192.0.2.1\n", "list.txt:2: 'soon' is not a duration"),
    ],
)
def test_faults_name_the_line_and_what_is_wrong(text, said):
    assert fault(text).startswith(said)


def test_csv_needs_a_subject_column():
    assert "the first line must name the columns" in fault("192.0.2.1,x\n", format="csv")
    assert "does not name the columns of CrowdSec" in fault("a,b\n", format="crowdsec")


def test_bad_lines_are_skipped_on_request():
    text = "192.0.2.1\n" + "".join(f"bad{n}\n" for n in range(30)) + "192.0.2.2\n"
    found, reading = read(text, skip_bad=True)
    assert [e.subject for e in found] == ["192.0.2.1", "192.0.2.2"]
    assert reading.bad == 30
    assert [f.line for f in reading.faults] == list(range(2, 12))


# ---- fail2ban


def test_fail2ban_banned():
    text = "[{'sshd': ['192.0.2.1', '2001:db8::1']}, {'nginx-limit': []}, {'recidive': ['198.51.100.0/24']}]\n"
    found, reading = read(text)
    assert reading.format == "fail2ban"
    assert [(e.subject, e.reason) for e in found] == [
        ("192.0.2.1", "fail2ban: sshd"),
        ("2001:db8::1", "fail2ban: sshd"),
        ("198.51.100.0/24", "fail2ban: recidive"),
    ]


def test_fail2ban_banip_with_time():
    start = datetime.fromtimestamp(NOW - 100)  # noqa: DTZ006 - fail2ban writes local time
    text = (
        f"192.0.2.1 \t{start} + 600 = {datetime.fromtimestamp(NOW + 500)}\n"  # noqa: DTZ006
        f"192.0.2.2 \t{start} + -1 = 9999-12-31 23:59:59\n"
        f"192.0.2.3 \t{start} + 50 = {datetime.fromtimestamp(NOW - 50)}\n"  # noqa: DTZ006
    )
    found, reading = read(text)
    assert reading.format == "fail2ban"
    assert [(e.subject, e.since, e.until) for e in found] == [
        ("192.0.2.1", NOW - 100, NOW + 500), ("192.0.2.2", NOW - 100, 0.0),
    ]  # fmt: skip
    assert reading.left_out == {"ended": 1}


def test_fail2ban_banip():
    assert subjects("192.0.2.1 192.0.2.2\n", format="fail2ban") == ["192.0.2.1", "192.0.2.2"]


@pytest.mark.parametrize("table", ["bips", "bans"])
def test_fail2ban_database(tmp_path, table):
    path = tmp_path / "fail2ban.sqlite3"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"CREATE TABLE {table} (jail TEXT, ip TEXT, timeofban INTEGER, bantime INTEGER, data JSON)")
        rows = [("sshd", "192.0.2.1", NOW - 10, 600), ("x", "192.0.2.2", NOW - 10, -1), ("x", "192.0.2.3", NOW - 99, 5)]
        database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, NULL)", rows)
    with path.open("rb") as file:
        reading = ListImport(file, path.name, Defaults(NOW))
        found = list(reading)
    assert [(e.subject, e.reason, e.until) for e in found] == [
        ("192.0.2.1", "fail2ban: sshd", NOW + 590), ("192.0.2.2", "fail2ban: x", 0.0),
    ]  # fmt: skip
    assert "must be a file" in fault(path.read_bytes())


def test_a_database_of_another_program_is_rejected(tmp_path):
    path = tmp_path / "other.sqlite3"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE x (y)")
    with path.open("rb") as file, pytest.raises(ListError, match=r"not a fail2ban database"):
        list(ListImport(file, path.name, Defaults(NOW)))


# ---- CrowdSec


def test_crowdsec_raw():
    text = (
        "id,source,ip,reason,action,country,as,events_count,expiration,simulated,alert_id\n"
        '1,crowdsec,Ip:192.0.2.1,crowdsecurity/ssh-bf,ban,ZZ,"64500 EXAMPLE, Inc",6,3h59m45.100387557s,false,1\n'
        "2,cscli,Range:198.51.100.0/24,manual,ban,,,0,30m,false,2\n"
        "3,cscli,Ip:192.0.2.3,manual,captcha,,,0,30m,false,2\n"
        "4,cscli,Country:ZZ,manual,ban,,,0,30m,false,2\n"
        "5,cscli,Ip:192.0.2.5,manual,ban,,,0,30m,true,2\n"
        "6,cscli,Ip:2001:db8::1,manual,ban,,,0,-5s,false,2\n"
        "7,cscli,Ip:2001:db8::2,manual,ban,,,0,5s,false,2\n"
    )
    found, reading = read(text)
    assert reading.format == "crowdsec"
    assert [(e.subject, e.reason) for e in found] == [
        ("192.0.2.1", "crowdsecurity/ssh-bf"), ("198.51.100.0/24", "manual"), ("2001:db8::2", "manual"),
    ]  # fmt: skip
    assert found[0].until == pytest.approx(NOW + 4 * 3600 - 14.9)
    assert reading.left_out == {"captcha": 1, "scope country": 1, "simulated": 1, "ended": 1}


def test_crowdsec_json():
    text = """[
  {"id": 5, "scenario": "crowdsecurity/http-probing", "source": {"ip": "192.0.2.1"}, "decisions": [
    {"duration": "3h", "id": 9, "origin": "crowdsec", "scenario": "crowdsecurity/http-probing", "scope": "Ip",
     "simulated": false, "type": "ban", "value": "192.0.2.1"},
    {"duration": "1h", "origin": "crowdsec", "scenario": "x", "scope": "AS", "type": "ban", "value": "64496"}]},
  {"id": 6, "decisions": []}
]"""
    for chosen in (None, "crowdsec"):
        found, _ = read(text, format=chosen)
        assert [(e.subject, e.reason, e.until) for e in found] == [
            ("192.0.2.1", "crowdsecurity/http-probing", NOW + 3 * 3600), ("AS64496", "x", NOW + 3600),
        ]  # fmt: skip


def test_files_for_crowdsecs_own_import_are_read():
    assert subjects("duration,scope,value\n24h,ip,192.0.2.1\n") == ["192.0.2.1"]
    assert subjects('[{"duration": "4h", "scope": "ip", "type": "ban", "value": "192.0.2.1"}]') == ["192.0.2.1"]
    assert subjects("value\n192.0.2.1\n", format="crowdsec") == ["192.0.2.1"]


@pytest.mark.no_cover
@pytest.mark.slow
def test_memory_does_not_grow_with_the_file():
    import tracemalloc

    class Long(io.RawIOBase):
        """A JSON list of many members, made as it is read."""

        def __init__(self) -> None:
            self.left = 60_000
            self.waiting = b"["

        def readable(self) -> bool:
            return True

        def readinto(self, buffer) -> int:
            while len(self.waiting) < len(buffer) and self.left:
                self.left -= 1
                row = b'{"subject": "192.0.2.1", "reason": "%s"}' % (b"x" * 200)
                self.waiting += row + (b",\n" if self.left else b"]")
            piece, self.waiting = self.waiting[: len(buffer)], self.waiting[len(buffer) :]
            buffer[: len(piece)] = piece
            return len(piece)

    reading = ListImport(io.BufferedReader(Long()), "long", Defaults(NOW))
    tracemalloc.start()
    count = sum(1 for _ in reading)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 60_000
    assert reading.bytes_read > 14_000_000
    assert peak < 3_000_000


# ---- Times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5h", 5400), ("7d", 604800), ("1w", 604800), ("2h45m12.5s", 9912.5), ("1ms", 0.001)],
)
def test_durations_are_parsed(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "-", "x", "5x", "1h30", "h", "1 h", "9" * 400, "\u0661s", "1e5"])
def test_an_invalid_duration_is_rejected(text):
    with pytest.raises(ValueError, match=r"is not a duration|is too long"):
        parse_duration(text)


@pytest.mark.parametrize("value", ["x", -1, "nan", "inf", True, [], 1e300, "0001-01-01", "9999-12-31T23:59:59-12:00"])
def test_an_invalid_time_is_rejected(value):
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(value)


@given(st.floats(1, 253_402_300_000).map(lambda n: round(n, 6)))
def test_a_formatted_time_is_parsed_to_the_same_number(at):
    assert parse_time(iso(at)) == pytest.approx(at, abs=1e-4)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_raise_nothing_but_list_errors(data):
    for chosen in (None, *module.FORMATS):
        try:
            read(data, format=chosen, skip_bad=True)
        except ListError as error:
            assert "\n" not in str(error)  # noqa: PT017
    detect_format(data)


def test_a_time_of_fail2ban_that_is_none_is_a_fault_with_its_line():
    with pytest.raises(ListError, match=r"list.txt:1: the time '2026-13-01 00:00:00' cannot be read"):
        read("192.0.2.1 2026-13-01 00:00:00 + 600 = 2026-13-01 00:10:00\n")
