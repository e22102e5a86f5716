"""Lines with something around them, archives, UTF-16 and HAProxy are read as the plain lines that they contain."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from hedgerow.logs.dialect import Dialect
from hedgerow.logs.reader import LogReader

LINES = [
    f'192.0.2.{n} - - [18/Nov/2026:08:00:{n:02} +0000] "GET /p{n}?a=b HTTP/1.1" 200 512 "http://e.org/" '
    '"Mozilla/5.0 \xc3\xa9"'
    for n in range(1, 9)
]
PLAIN = "\n".join(LINES) + "\n"


def rows(path: Path, dialect: Dialect | None = None) -> list[tuple[str, float, str, str, str, int]]:
    reader = LogReader([str(path)], dialect=dialect or Dialect())
    found = [(v.address, int(v.at), v.target, v.referrer, v.user_agent, v.status) for v in reader]
    assert reader.counts.bad == 0, reader.counts.samples
    return found


@pytest.fixture
def expected(tmp_path):
    path = tmp_path / "plain.log"
    path.write_text(PLAIN, "latin-1")
    found = rows(path)
    assert len(found) == 8
    return found


WRAPPED = {
    "syslog": lambda line: f"Nov 18 08:00:00 web nginx: {line}",
    "syslog with a priority and a process": lambda line: f"<190>Nov  8 08:00:00 web nginx[77]: {line}",
    "syslog without a host": lambda line: f"<190>Nov 18 08:00:00 nginx: {line}",
    "syslog with an ISO time": lambda line: f"2026-11-18T08:00:00.123456+00:00 web nginx: {line}",
    "RFC 5424": lambda line: f'<134>1 2026-11-18T08:00:00Z web nginx 77 - [a@1 b="x\\]y"] {line}',
    "journal": lambda line: f"Nov 18 08:00:00.123456 web nginx[77]: {line}",
    "journal as JSON": lambda line: json.dumps(
        {"__REALTIME_TIMESTAMP": "1", "MESSAGE": line.encode("latin-1").decode()}
    ),
    "journal as bytes": lambda line: json.dumps({"MESSAGE": list(line.encode("latin-1"))}),
    "Docker": lambda line: json.dumps(
        {"log": line.encode("latin-1").decode() + "\n", "stream": "stdout", "time": "2026-11-18T08:00:00.1Z"}
    ),
    "Kubernetes": lambda line: f"2026-11-18T08:00:00.123456789Z stdout F {line}",
    "Kubernetes in parts": lambda line: (
        f"2026-11-18T08:00:00.1Z stdout P {line[:30]}\n2026-11-18T08:00:00.1Z stdout F {line[30:]}"
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_what_is_around_a_line_is_removed(tmp_path, expected, name):
    path = tmp_path / "log"
    path.write_text("\n".join(map(WRAPPED[name], LINES)) + "\n", "latin-1")
    assert rows(path) == expected


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_read(tmp_path, expected, encoding):
    path = tmp_path / "log"
    path.write_bytes(PLAIN.encode("latin-1").decode().encode(encoding))
    assert rows(path) == expected


def test_the_files_in_a_zip_archive_are_read(tmp_path, expected):
    path = tmp_path / "log.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logs/", b"")
        archive.writestr("logs/a.log", "\n".join(LINES[:3]).encode("latin-1"))
        archive.writestr("logs/b.log.gz", gzip.compress(("\n".join(LINES[3:]) + "\n").encode("latin-1")))
        archive.writestr("__MACOSX/logs/._a.log", b"\0\1\2")
    assert rows(path) == expected


def test_a_damaged_archive_says_so(tmp_path):
    path = tmp_path / "log.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.log", PLAIN.encode("latin-1"))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(Exception, match="cannot be read"):
        LogReader([str(path)])


HAPROXY = (
    "192.0.2.7:50112 [18/Nov/2026:08:00:07.250] www~ site/web1 0/0/1/2/3 200 512 - - ---- 1/1/0/0/0 0/0 "
    '{e.org|Mozilla/5.0 (X11)|http://e.org/start} "GET /p7?a=b HTTP/1.1"'
)


@pytest.mark.parametrize("prefix", ["", "<134>Nov 18 08:00:07 lb haproxy[14389]: "])
def test_haproxy_is_read(tmp_path, prefix):
    path = tmp_path / "log"
    path.write_text(f"{prefix}{HAPROXY}\n")
    reader = LogReader([str(path)])
    (visit,) = reader
    assert reader.counts.formats == ["haproxy"]
    assert (visit.address, visit.at % 60, visit.target, visit.status) == ("192.0.2.7", 7.25, "/p7?a=b", 200)
    assert (visit.referrer, visit.user_agent) == ("http://e.org/start", "Mozilla/5.0 (X11)")


def test_a_format_that_describes_the_wrapper_is_taken_as_it_is(tmp_path):
    path = tmp_path / "log"
    path.write_text("\n".join(f"Nov 18 08:00:00 web nginx: {line}" for line in LINES) + "\n", "latin-1")
    form = '$month $day $clock $web $tag $remote_addr - - [$time_local] "$request" $status $size "$http_referer" "$ua"'
    found = LogReader([str(path)], dialect=Dialect(form))
    assert [visit.address for visit in found] == [f"192.0.2.{n}" for n in range(1, 9)]


@pytest.mark.parametrize("client", ["Nov", "999.0.2.1", "-", "1", "<134>Nov"])
def test_what_is_no_address_and_no_host_name_is_no_client(tmp_path, client):
    path = tmp_path / "log"
    path.write_text(LINES[0].replace("192.0.2.1", client, 1) + "\n" + LINES[1] + "\n", "latin-1")
    reader = LogReader([str(path)])
    assert [visit.address for visit in reader] == ["192.0.2.2"]
    assert reader.counts.bad == 1


def test_a_line_of_docker_that_is_not_utf8_is_bad_and_the_rest_is_read(tmp_path):
    path = tmp_path / "x-json.log"
    lines = [json.dumps({"log": line + "\n", "stream": "stdout"}).encode() for line in LINES]
    lines[3:3] = [b'{"log":"192.0.2.1 \x82 - [x]\\n","stream":"stdout"}']
    path.write_bytes(b"\n".join(lines) + b"\n")
    reader = LogReader([str(path)], dialect=Dialect())
    assert len(list(reader)) == len(LINES)
    assert reader.counts.bad == 1
