"""Formats other than the default ones of nginx and Apache: sample lines and their visits."""

from __future__ import annotations

import json
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import LogError
from hedgerow.logs.dialect import FORMAT_NAMES, Dialect, detect_format, is_directive, parser
from hedgerow.logs.formats import Format
from hedgerow.logs.reader import LogReader

AT = 971211336.0
CADDY = {
    "level": "info", "ts": AT + 0.5, "logger": "http.log.access", "status": 200, "size": 10900,
    "request": {
        "remote_ip": "192.0.2.1", "client_ip": "192.0.2.1", "proto": "HTTP/2.0", "method": "GET",
        "host": "e.org", "uri": "/a?b=1", "headers": {"User-Agent": ["curl/7"], "Referer": ["http://e.org/"]},
    },
}  # fmt: skip
TRAEFIK = {
    "ClientHost": "192.0.2.1", "ClientUsername": "-", "DownstreamStatus": 200, "RequestMethod": "GET",
    "RequestPath": "/a?b=1", "RequestHost": "e.org", "StartUTC": "2000-10-10T20:55:36.500000000Z", "time": "x",
    "request_User-Agent": "curl/7", "request_Referer": "http://e.org/",
}  # fmt: skip
NGINX = {
    "time_iso8601": "2000-10-10T13:55:36-07:00", "remote_addr": "192.0.2.1", "request": "GET /a?b=1 HTTP/1.1",
    "status": "200", "http_referer": "http://e.org/", "http_user_agent": "curl/7", "host": "e.org",
}  # fmt: skip
ALB = (
    "https 2000-10-10T20:55:36.500000Z app/lb/50dc6c495c0c9188 192.0.2.1:2817 10.0.0.1:80 0.08 0.04 0.03 200 200 0 57 "
    '"GET https://e.org:443/a?b=1 HTTP/1.1" "curl/7" ECDHE TLSv1.2 arn:x "Root=1" "e.org" "-" 0 2000 "forward" "-" "-"'
)
CLOUDFRONT = (
    "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status "
    "cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header\n"
    "2000-10-10\t20:55:36\tFRA2\t2390\t192.0.2.1\tGET\td1.cloudfront.net\t/a\t200\thttp://e.org/\tcurl/7%20x\tb=1\t-\tHit"
    "\tabc\te.org"
)
IIS = (
    "#Software: Microsoft Internet Information Services 10.0\n#Date: 2000-10-10 00:00:00\n"
    "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) "
    "sc-status cs-host\n"
    "2000-10-10 20:55:36 10.0.0.1 GET /a b=1 443 - 192.0.2.1 curl/7+x http://e.org/ 200 e.org"
)


@pytest.mark.parametrize(
    ("text", "name", "exact", "agent"),
    [
        (json.dumps(CADDY), "json", True, "curl/7"),
        (json.dumps(TRAEFIK), "json", True, "curl/7"),
        (json.dumps(NGINX), "json", False, "curl/7"),
        (ALB, "alb", True, "curl/7"),
        (CLOUDFRONT, "w3c", False, "curl/7 x"),
        (IIS, "w3c", False, "curl/7 x"),
    ],
)
def test_a_format_is_recognised_and_read(tmp_path, text, name, exact, agent):
    path = tmp_path / "log"
    path.write_text(text + "\nno line of it\n")
    reader = LogReader([str(path)])
    (visit,) = reader
    assert reader.counts.formats == [name]
    assert (reader.counts.parsed, reader.counts.bad) == (1, 1)
    assert reader.counts.directives == text.count("#")
    assert visit.at == AT + 0.5 * exact
    assert (visit.address, visit.method, visit.target, visit.status) == ("192.0.2.1", "GET", "/a?b=1", 200)
    assert visit.user_agent == agent
    assert visit.host == "e.org"
    assert visit.referrer == ("" if name == "alb" else "http://e.org/")


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (
            '$host $remote_addr [$time_local] "$request" $status rt=$request_time "$http_user_agent" "$http_referer"',
            r'e.org 192.0.2.1 [10/Oct/2000:13:55:36 -0700] "GET /a?b=1 HTTP/1.1" 200 rt=0.1 "a \"b\"" "http://e.org/"',
        ),
        (
            "$msec|$remote_addr|$remote_user|$request_method|$uri|$args|$status|$http_referer|$http_user_agent|$host",
            '971211336.000|192.0.2.1|-|GET|/a|b=1|200|http://e.org/|a "b"|e.org',
        ),
        (
            r"%v %h %l %u %t \"%r\" %>s \"%{Referer}i\" \"%{User-Agent}i\" %D",
            r'e.org 192.0.2.1 - j d [10/Oct/2000:13:55:36 -0700] "GET /a?b=1 HTTP/1.1" 200 "http://e.org/" "a \"b\"" 1',
        ),
        (
            "%{%Y-%m-%d %H:%M:%S}t %a %m %U%q %s '%{Referer}i' '%{User-agent}i' %V",
            """2000-10-10 20:55:36 192.0.2.1 GET /a?b=1 200 'http://e.org/' 'a "b"' e.org""",
        ),
        (
            """log_format main '$http_x_forwarded_for - [$time_local] "$request" '
                '$status $host "$http_referer" "$http_user_agent"';""",
            (
                r"192.0.2.1, 10.0.0.1, 10.0.0.2 - [10/Oct/2000:13:55:36 -0700] "
                r'"GET /a?b=1 HTTP/1.1" 200 e.org "http://e.org/" "a \"b\""'
            ),
        ),
        (
            r"$time_iso8601\t$host\t$http_x_forwarded_for\t$remote_addr\t$request\t$status\t$http_referer\t$http_user_agent",
            '2000-10-10T13:55:36-07:00\te.org\t-\t192.0.2.1\tGET /a?b=1 HTTP/1.1\t200\thttp://e.org/\ta "b"',
        ),
        (
            r'LogFormat "%{X-Forwarded-For}i %h %v %t \"%r\" %s \"%{Referer}i\" \"%{User-Agent}i\"" proxied',
            (
                r"198.51.100.1, 10.0.0.9 192.0.2.1 e.org [10/Oct/2000:13:55:36 -0700] "
                r'"GET /a?b=1 HTTP/1.1" 200 "http://e.org/" "a \"b\""'
            ),
        ),
    ],
)
def test_a_servers_own_format_is_parsed(pattern, line):
    form = detect_format([line.encode()], Dialect(pattern))
    visit = parser(form, Dialect(pattern))(line.encode())
    assert form == Format("pattern")
    assert visit is not None
    assert visit.at == AT
    assert (visit.address, visit.method, visit.target, visit.status) == ("192.0.2.1", "GET", "/a?b=1", 200)
    assert (visit.host, visit.referrer, visit.user_agent) == ("e.org", "http://e.org/", 'a "b"')


@pytest.mark.parametrize(
    ("text", "old"),
    [
        (json.dumps(CADDY), False),
        (json.dumps(CADDY).replace("HTTP/2.0", "HTTP/1.0"), True),
        (json.dumps(TRAEFIK | {"RequestProtocol": "HTTP/1.0"}), True),
        (json.dumps(NGINX), False),
        (json.dumps(NGINX).replace("HTTP/1.1", "HTTP/1.0"), True),
        (ALB.replace("HTTP/1.1", "HTTP/1.0"), True),
        (IIS.replace(" cs-host", " cs-version").replace(" e.org", " HTTP/1.0"), True),
    ],
)
def test_http_1_0_is_recorded(tmp_path, text, old):
    path = tmp_path / "log"
    path.write_text(text + "\n")
    (visit,) = LogReader([str(path)])
    assert visit.old_http == old


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("$msec $remote_addr $uri $server_protocol", "1 192.0.2.1 /a HTTP/1.0"),
        ("%{sec}t %h %U %H", "1 192.0.2.1 /a HTTP/1.0"),
    ],
)
def test_a_format_without_methods_contains_get_requests(pattern, line):
    visit = parser(Format("pattern"), Dialect(pattern))(line.encode())
    assert visit is not None
    assert (visit.method, visit.target, visit.kind, visit.old_http) == ("GET", "/a", "page", True)
    visit = parser(Format("json"), Dialect())(b'{"time": 1, "ip": "192.0.2.1", "url": "/a", "status": 200}')
    assert visit is not None
    assert (visit.method, visit.target, visit.kind) == ("GET", "/a", "page")
    nothing = parser(Format("json"), Dialect())(b'{"time": 1, "ip": "192.0.2.1", "status": 408}')
    assert nothing is not None
    assert (nothing.method, nothing.kind) == ("", "call")


def test_field_names_can_be_given():
    line = b'{"when": 971211336, "who": {"ip": "192.0.2.1"}, "request": "GET / HTTP/1.1"}'
    dialect = Dialect(fields={"time": "when", "address": "who.ip"})
    visit = parser(detect_format([line], dialect), dialect)(line)
    assert visit is not None
    assert (visit.at, visit.address) == (AT, "192.0.2.1")


LONG = "k3jq0c8l1vf2m6t9r5"


@pytest.mark.parametrize(
    ("line", "dialect", "visitor"),
    [
        ('{"ts": 1, "ip": "192.0.2.1", "uri": "/", "session_id": "s-1"}', Dialect(), "session:s-1"),
        ('{"ts": 1, "ip": "192.0.2.1", "uri": "/"}', Dialect(), "192.0.2.1"),
        ('{"ts": 1, "uri": "/", "a": {"b": "s-1"}}', Dialect(fields={"session": "a.b"}), "session:s-1"),
        (
            '{"ts": 1, "ip": "192.0.2.1", "request": {"headers": {"Cookie": ["x=y; PHPSESSID=s-1; z"]}}}',
            Dialect(),
            "session:s-1",
        ),
        (f'1 192.0.2.1 "{LONG}"', Dialect('$msec $remote_addr "$cookie_PHPSESSID"'), "session:k3jq0c8l..838944"),
        ('1 192.0.2.1 "b=1; a=s-1"', Dialect('$msec $remote_addr "$http_cookie"', {"session": "a"}), "session:s-1"),
        ("- - [10/Oct/2000:13:55:36 -0700] s-1", Dialect("- - %t %{sid}C"), "session:s-1"),
        ("- - [10/Oct/2000:13:55:36 -0700] -", Dialect("- - %t %{sid}C"), None),
    ],
)
def test_sessions_are_found_on_request(line, dialect, visitor):
    asked = msgspec.structs.replace(dialect, by="session")
    asked.check()
    visit = parser(detect_format([line.encode()], asked), asked)(line.encode())
    assert (visit and visit.visitor) == visitor


def test_sessions_of_a_w3c_log_are_found():
    parse = parser(Format("w3c"), Dialect(by="session"))
    assert is_directive(parse, b"#Fields: date time c-ip cs-uri-stem cs(Cookie)")
    visit = parse(b"2000-10-10 20:55:36 192.0.2.1 / a=1;+ASP.NET_SessionId=s-1")
    assert visit is not None
    assert visit.visitor == "session:s-1"


@pytest.mark.parametrize(
    ("dialect", "said"),
    [
        (Dialect("apache"), "no format is called 'apache'"),
        (Dialect("$status $request"), "does not contain the client"),
        (Dialect("%h %r"), "does not contain the time"),
        (Dialect("%h%u %t"), "have nothing between them"),
        (Dialect(fields={"adress": "x"}), "no field is called 'adress'"),
    ],
)
def test_an_invalid_dialect_is_reported(dialect, said):
    with pytest.raises(LogError, match=said):
        dialect.check()


@given(st.lists(st.binary(max_size=80), max_size=5), st.sampled_from(FORMAT_NAMES))
def test_arbitrary_bytes_in_any_format_give_a_visit_or_none(lines, name):
    parse = parser(Format(name))
    for line in lines:
        parse(line)
    detect_format(lines)


def test_parquet_is_read(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "log.parquet"
    rows = [NGINX, NGINX | {"remote_addr": None}]
    parquet.write_table(pa.Table.from_pylist(rows), path)
    reader = LogReader([str(path)])
    (visit,) = reader
    assert (reader.counts.formats, reader.counts.parsed, reader.counts.bad) == (["parquet"], 1, 1)
    assert (visit.at, visit.target, visit.status) == (AT, "/a?b=1", 200)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(LogError, match="cannot be read as Parquet"):
        list(LogReader([str(path)]))


def test_parquet_without_pyarrow_is_one_line_that_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LogError, match=r"^[^\n]*: Parquet needs pyarrow; install hedgerow\[parquet\]$"):
        LogReader([str(path)])


@pytest.mark.parametrize("time_format", ["%T%H:%M:%S", "%Y-%Y", "%Q", "%"])
def test_a_format_of_the_time_that_cannot_be_read_is_refused(time_format):
    with pytest.raises(LogError, match="format of the time"):
        Dialect(f"%{{{time_format}}}t %a %m %U").check()
