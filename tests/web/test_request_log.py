"""What the log says about requests, in all its formats, and what it keeps to itself."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import subprocess
import sys
import time

import msgspec
import pytest

from driving import Application, Client, settings, traps_in
from hedgerow.errors import SettingsError
from hedgerow.lists.model import Listing, Lists
from hedgerow.proxy.proxy import Proxy
from hedgerow.settings import read_settings
from hedgerow.web.http_client.pool import Upstream
from hedgerow.web.log_format import JsonFormatter, LogfmtFormatter, TextFormatter
from hedgerow.web.request_log import LineLimit, new_request_id
from real.servers import free_port

BLACK = "192.0.2.66"


def black() -> Lists:
    lists = Lists()
    lists.put(Listing("black", BLACK, "", "", 0.0, 0.0))
    lists.settle()
    return lists


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "hedgerow")

    def lines(logger: str) -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.name == logger]

    return lines


def test_a_refusal_is_one_line_with_its_reference(lines):
    client = Client(lists=black())
    answer = client.get("/secret/page?token=hunter2", peer=BLACK, headers={"cookie": "session=hunter3"})
    assert answer.status == 403
    (line,) = lines("hedgerow.decisions")
    fields = line.fields
    assert (fields["action"], fields["code"], fields["visitor"]) == ("refuse", "list-black", BLACK)
    assert (fields["method"], fields["host"], fields["path"]) == ("GET", "example.org", "/secret/page")
    assert fields["status"] == 403
    assert fields["reference"].encode() in answer.body
    assert fields["reference"] == client.entries[0].reference
    assert line.getMessage() == (
        f"refused {BLACK}: list-black, GET /secret/page, reference {fields['reference']}, "
        f"request {fields['request_id']}"
    )
    assert "observed" not in fields
    assert "hunter" not in line.getMessage() + repr(fields)
    client.get("/", peer="192.0.2.1")
    assert len(lines("hedgerow.decisions")) == 1


@pytest.mark.parametrize("mode", ["true", '"links"'])
def test_while_observing_a_line_says_what_would_have_been_done(lines, mode):
    client = Client(text=f"observe = {mode}\n", lists=black())
    assert client.get("/", peer=BLACK).status == 200
    (line,) = lines("hedgerow.decisions")
    assert line.getMessage().startswith(f"would have refused {BLACK}: list-black, GET /")
    assert line.fields["observed"] is True
    assert line.fields["status"] == 200


def test_a_marked_link_is_not_written_to_the_log(lines):
    client = Client(text='[marker]\nmode = "opaque"\n')
    hidden = traps_in(client.get("/").body)[0]
    assert client.get(hidden).status == 403
    (line,) = lines("hedgerow.decisions")
    assert line.fields["path"] == "(marked link)"
    assert hidden.rpartition("~")[2][:20] not in repr(line.__dict__)


def test_control_characters_of_a_request_stay_in_their_line(lines):
    client = Client(lists=black())
    client.get("/a\n2026 INFO passed\x1b[2J", peer=BLACK)
    (line,) = lines("hedgerow.decisions")
    assert "\n" not in TextFormatter().format(line)
    assert "\x1b" not in TextFormatter().format(line)


def test_a_flood_is_cut_and_counted(lines):
    client = Client(text="[logging]\nper_second = 5\n", lists=black())
    started = time.monotonic()
    for _ in range(60):
        client.get("/", peer=BLACK)
    seconds = time.monotonic() - started
    client.site.log.close()
    written, summaries = lines("hedgerow.decisions"), [r for r in lines("hedgerow") if "left_out" in r.fields]
    assert len(written) <= 5 * (int(seconds) + 1)
    assert len(written) + sum(r.fields["left_out"] for r in summaries) == 60
    assert "lines about decisions" in summaries[0].getMessage()


def test_what_was_left_out_is_reported_without_another_request(lines):
    limit = LineLimit(1, "decisions")
    assert [limit.allows() for _ in range(3)] == [True, False, False]
    deadline = time.monotonic() + 60
    while not lines("hedgerow") and time.monotonic() < deadline:
        time.sleep(0.05)
    (line,) = lines("hedgerow")
    assert line.getMessage() == "left out 2 lines about decisions"


def test_blocks_are_limited_as_well(lines):
    client = Client(text="[logging]\nper_second = 2\n")
    for n in range(20):
        peer = f"192.0.2.{n}"
        client.get(traps_in(client.get("/", peer=peer).body)[0], peer=peer)
    assert client.site.app.gate.blocked == 20
    assert 0 < len(lines("hedgerow.core.gate")) < 20


def test_a_site_that_does_not_answer_is_one_line(lines):
    port = free_port()
    client = Client(Proxy(Upstream(f"http://127.0.0.1:{port}")))
    answer = client.get("/page?q=hunter2")
    assert answer.status == 502
    (line,) = lines("hedgerow.upstream")
    assert line.levelname == "WARNING"
    assert line.getMessage().startswith("the site failed (connect): ")
    assert (line.fields["kind"], line.fields["path"], line.fields["status"]) == ("connect", "/page", 502)
    assert line.fields["reference"].encode() in answer.body
    assert "hunter2" not in line.getMessage()
    assert client.site.counters.upstream_errors == {"connect": 1}


def test_a_websocket_that_the_site_does_not_open_is_one_line(lines):
    client = Client(Proxy(Upstream(f"http://127.0.0.1:{free_port()}")))
    sent = []

    async def ask() -> None:
        waiting = [{"type": "websocket.connect"}]
        scope = {
            "type": "websocket", "path": "/chat", "raw_path": b"/chat", "query_string": b"", "scheme": "ws",
            "headers": [(b"host", b"example.org")], "client": ("192.0.2.1", 1), "subprotocols": [],
        }  # fmt: skip

        async def receive():
            return waiting.pop()

        async def send(message):
            sent.append(message)

        await client.hedgerow(scope, receive, send)

    asyncio.run(ask())
    assert sent[0]["type"] == "websocket.close"
    (line,) = lines("hedgerow.upstream")
    assert (line.fields["kind"], line.fields["path"], line.fields["status"]) == ("connect", "/chat", 502)
    assert client.site.counters.upstream_errors == {"connect": 1}


# ---- Request ids


def test_a_request_has_an_id_that_the_application_gets(lines):
    app = Application()
    client = Client(app, lists=black())
    client.get("/", headers={"x-request-id": "forged"})
    client.get("/")
    first, second = app.seen("x-request-id", 0), app.seen("x-request-id", 1)
    assert first != second
    assert b"forged" not in (first, second)
    assert [name for name, _ in app.scopes[0]["headers"]].count(b"x-request-id") == 1
    client.get("/", peer=BLACK)
    assert lines("hedgerow.decisions")[0].fields["request_id"] not in {first.decode(), second.decode()}


def test_the_id_of_a_trusted_proxy_is_kept(lines):
    app = Application()
    client = Client(app, '[identity]\ntrusted_proxies = ["192.0.2.9/32"]\n', lists=black())
    headers = {"x-request-id": "abc-1", "x-forwarded-for": "198.51.100.7"}
    client.get("/", peer="192.0.2.9", headers=headers)
    assert app.seen("x-request-id") == b"abc-1"
    client.get("/", peer="192.0.2.9", headers={**headers, "x-forwarded-for": BLACK})
    assert lines("hedgerow.decisions")[0].fields["request_id"] == "abc-1"
    for bad in ("two words", "x" * 200, ""):
        client.get("/", peer="192.0.2.9", headers={**headers, "x-request-id": bad})
        assert app.seen("x-request-id") != bad.encode()


def test_the_header_can_be_another_or_none():
    app = Application()
    Client(app, '[logging]\nrequest_id = "X-Trace"\n').get("/", headers={"x-request-id": "mine"})
    assert app.seen("x-trace")
    assert app.seen("x-request-id") == b"mine"
    Client(app, '[logging]\nrequest_id = ""\n').get("/", headers={"x-request-id": "mine"})
    assert app.seen("x-trace") is None
    assert app.seen("x-request-id") == b"mine"


def test_processes_have_different_ids():
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, new_request_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode()[:12] != new_request_id()[:12]
    os.close(reader)
    os.close(writer)


# ---- Formats


def record(message: str = "said %s", *arguments: object, **fields: object) -> logging.LogRecord:
    one = logging.LogRecord("hedgerow.decisions", logging.INFO, "", 0, message, arguments or ("so",), None)
    one.fields = fields
    return one


def test_a_line_of_json_has_the_fields_as_keys():
    one = record('a "b"\n\ud800 %s', "c", action="refuse", status=403, observed=True)
    line = JsonFormatter().format(one)
    assert "\n" not in line
    found = json.loads(line)
    assert found["message"] == 'a "b"\n\\ud800 c'
    assert (found["level"], found["logger"], found["action"], found["status"], found["observed"]) == (
        "info", "hedgerow.decisions", "refuse", 403, True,
    )  # fmt: skip
    assert found["time"].endswith("Z")


def test_a_line_of_logfmt_can_be_split_again():
    line = LogfmtFormatter().format(record('x "y" = z\n %s', "c", path="/a=b c", status=403))
    assert "\n" not in line
    found = dict(part.split("=", 1) for part in shlex.split(line, posix=True))
    assert (found["level"], found["status"], found["path"]) == ("info", "403", "/a=b c")


@pytest.mark.parametrize("formatter", [JsonFormatter, LogfmtFormatter])
def test_an_exception_stays_in_one_line(formatter):
    one = record()
    try:
        int("broken")
    except ValueError as error:
        one.exc_info = (ValueError, error, error.__traceback__)
    line = formatter().format(one)
    assert "\n" not in line
    assert "ValueError: invalid literal" in line


_TWO_LINES = """
import logging, sys
from hedgerow.settings import read_settings
from hedgerow.web.log_format import log_to_stderr
log_to_stderr(read_settings(sys.argv[1], environment={}).logging)
logging.getLogger("hedgerow.x").info("one")
logging.getLogger("hedgerow.x").warning("two")
"""


def logged(text: str) -> list[str]:
    """What a process logs with these settings. In this one, other tests may have set up logging."""
    command = [sys.executable, "-c", _TWO_LINES, f"[logging]\n{text}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr.splitlines()


def test_the_settings_choose_level_and_format():
    (line,) = logged('level = "warning"\nformat = "json"\n')
    assert json.loads(line)["message"] == "two"
    lines = logged('level = "debug"\nformat = "logfmt"\n')
    assert [line.split(" message=")[1] for line in lines] == ["one", "two"]


def test_faulty_settings_are_named():
    with pytest.raises(SettingsError) as error:
        read_settings('[logging]\nformat = "xml"\nper_second = 0\nrequest_id = "a b"\n', environment={})
    assert [fault.partition(": ")[2].partition(":")[0] for fault in error.value.faults] == [
        "logging.format", "logging.per_second", "logging.request_id",
    ]  # fmt: skip


def test_the_settings_of_a_reload_are_in_force(lines):
    client = Client(lists=black())
    fewer = settings("[logging]\nper_second = 1\n").logging
    client.site.reload(msgspec.structs.replace(client.site.app.settings, logging=fewer))
    for _ in range(3):
        client.get("/", peer=BLACK)
    assert len(lines("hedgerow.decisions")) < 3
