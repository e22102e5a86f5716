"""The lists on the admin listener: what can be done with them, and who may not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from driving import KEY, Answer, Clock, Entries, settings
from hedgerow.lists.model import Lists
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.web.admin import lists as module
from hedgerow.web.admin.app import Admin
from hedgerow.web.app import Site
from hedgerow.web.asgi import Hedgerow

TOKEN = "0123456789abcdef0123"


class Operator:
    """Speaks to the admin listener of a site with a directory of its own."""

    def __init__(self, folder: Path, text: str = "") -> None:
        self.site = Site(
            settings(f"directory = '{folder}'\n{text}"), tokens=TokenCodecs([Key(1, KEY, 0.0)]), ledger=Entries()
        )
        self.admin = Admin(self.site)

    def ask(self, method: str, path: str, said: object = None, *, raw: bytes | None = None, **headers: str) -> Answer:
        body = raw if raw is not None else b"" if said is None else json.dumps(said).encode()
        path, _, query = path.partition("?")
        given = {"host": "127.0.0.1:9000", "content_type": "application/json", **headers}
        scope = {
            "type": "http", "method": method, "path": path, "query_string": query.encode(),
            "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in given.items() if v],
            "server": ("127.0.0.1", 9000),
        }  # fmt: skip
        waiting = [{"type": "http.request", "body": body}]
        sent: list = []

        async def receive():
            return waiting.pop() if waiting else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        asyncio.run(self.admin(scope, receive, send))
        whole = b"".join(message.get("body", b"") for message in sent[1:])
        answer = Answer(sent[0]["status"], sent[0]["headers"], whole, sent)
        length = answer.header("content-length")
        if method != "HEAD" and length is not None:
            assert int(length) == len(whole)
        return answer

    def json(self, *args, **options):
        answer = self.ask(*args, **options)
        return answer.status, json.loads(answer.body) if answer.body else None


@pytest.fixture
def operator(tmp_path):
    operator = Operator(tmp_path)
    yield operator
    operator.site.close()


def test_create_read_update_delete(operator):
    status, entry = operator.json(
        "POST", "/lists", {"list": "black", "subject": "192.0.2.0/24", "reason": "spam", "author": "ann", "for": "1d"}
    )
    assert status == 201
    assert (entry["list"], entry["subject"], entry["reason"], entry["author"]) == (
        "black", "192.0.2.0/24", "spam", "ann",
    )  # fmt: skip
    assert entry["until"] > entry["since"]
    assert operator.site.lists.sizes["black"] == 1
    assert operator.json("GET", "/lists/black/192.0.2.0/24") == (200, entry)
    assert operator.json("POST", "/lists", {"list": "black", "subject": "192.0.2.0/24"})[0] == 409
    assert operator.json("GET", "/lists") == (200, {"entries": [entry], "next": None})
    status, changed = operator.json("PATCH", "/lists/black/192.0.2.0/24", {"reason": "more spam", "until": None})
    assert status == 200
    assert changed == {**entry, "reason": "more spam", "until": None}
    status, put = operator.json("PUT", "/lists/white/account:Zo\u00eb", {"author": "bob"})
    assert status == 200
    assert put["subject"] == "account:Zo\u00eb"
    assert operator.site.lists.sizes == {"white": 1, "black": 1}
    assert operator.json("DELETE", "/lists/black/192.0.2.0/24") == (204, None)
    assert operator.site.lists.sizes == {"white": 1, "black": 0}
    assert operator.json("DELETE", "/lists/black/192.0.2.0/24")[0] == 404
    assert operator.json("GET", "/lists/black/192.0.2.0/24")[0] == 404
    assert operator.json("PATCH", "/lists/black/192.0.2.0/24", {})[0] == 404


def test_pages_of_entries(operator):
    raw = "\n".join(f"192.0.2.{n}" for n in range(250)).encode()
    kind = "application/octet-stream"
    status, told = operator.json("POST", "/lists/import?author=feed&reason=x", raw=raw, content_type=kind)
    assert (status, told["imported"], told["format"]) == (200, 250, "plain")
    seen, after = [], ""
    while after is not None:
        _, page = operator.json("GET", f"/lists?limit=60&after={after}")
        seen += [entry["subject"] for entry in page["entries"]]
        after = page["next"]
    assert sorted(seen) == sorted(f"192.0.2.{n}" for n in range(250))
    assert len(operator.json("GET", "/lists?subject=192.0.2.7")[1]["entries"]) == 1
    assert operator.json("GET", "/lists?author=nobody")[1]["entries"] == []
    assert operator.json("GET", "/lists?of=account&list=black&reason=x&ended=1")[1]["entries"] == []


def test_import_and_export(operator):
    said = {"text/csv": b"subject,until\n192.0.2.1,2999-01-01\n", "application/json": b'[{"subject": "192.0.2.2"}]'}
    for kind, raw in said.items():
        assert operator.json("POST", "/lists/import", raw=raw, content_type=kind)[1]["imported"] == 1
    answer = operator.ask("GET", "/lists/export/nginx-deny")
    assert answer.status == 200
    assert b"deny 192.0.2.1;\ndeny 192.0.2.2;\n" in answer.body
    assert answer.header("content-type") == b"text/plain; charset=utf-8"
    exported = operator.ask("GET", "/lists/export/json?list=black")
    assert len(json.loads(exported.body)) == 2
    assert operator.ask("HEAD", "/lists/export/json").body == b""
    assert operator.ask("GET", "/lists/export/plain?list=white").body == b""
    status, told = operator.json(
        "POST", "/lists/import?replace=1&author=a", raw=b"198.51.100.1\nx\n", content_type="text/csv"
    )
    assert status == 400
    assert told["error"].startswith("body:2: 'x' is not an address")
    status, told = operator.json(
        "POST", "/lists/import?skip_bad=1&for=1h&list=white", raw=b"198.51.100.1\nx\n", content_type="text/csv"
    )
    assert (status, told["imported"], told["bad"]) == (200, 1, 1)
    assert told["faults"][0]["line"] == 2


@pytest.mark.parametrize(
    ("method", "path", "said", "status"),
    [
        ("POST", "/lists", {"list": "grey", "subject": "192.0.2.1"}, 400),
        ("POST", "/lists", {"list": "black"}, 400),
        ("POST", "/lists", {"list": "black", "subject": "example.org"}, 400),
        ("POST", "/lists", {"list": "black", "subject": "192.0.2.1", "colour": "red"}, 400),
        ("POST", "/lists", {"list": "black", "subject": "192.0.2.1", "until": "soon"}, 400),
        ("POST", "/lists", {"list": "black", "subject": "192.0.2.1", "for": "soon"}, 400),
        ("POST", "/lists", [1], 400),
        ("PUT", "/lists/black/x", {}, 400),
        ("PUT", "/lists/grey/192.0.2.1", {}, 404),
        ("GET", "/lists/black/", None, 404),
        ("GET", "/lists/nothing", None, 404),
        ("GET", "/listsx", None, 404),
        ("GET", "/lists/export/word", None, 404),
        ("GET", "/lists?list=grey", None, 400),
        ("GET", "/lists?limit=x", None, 400),
        ("GET", "/lists?subject=x", None, 400),
        ("GET", "/lists/import", None, 405),
        ("POST", "/lists/export/json", {}, 405),
        ("POST", "/lists/black/192.0.2.1", {}, 405),
        ("DELETE", "/lists", None, 405),
        ("POST", "/lists/import?replace=1", {}, 400),
        ("POST", "/lists/import?format=xml", {}, 400),
    ],
)
def test_what_is_wrong_is_said(operator, method, path, said, status):
    found = operator.ask(method, path, said)
    assert found.status == status
    if found.header("content-type") == b"application/json":
        assert "\n" not in json.loads(found.body)["error"]


def test_no_form_of_another_site_gets_through(operator):
    said = {"list": "white", "subject": "0.0.0.0/0"}
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert operator.ask("POST", "/lists", said, content_type=kind).status == 415
        assert operator.ask("POST", "/lists/import", raw=b"192.0.2.1", content_type=kind).status == 415
    for headers in ({"origin": "http://evil.example"}, {"sec_fetch_site": "cross-site"}, {"origin": "null"}):
        assert operator.ask("POST", "/lists", said, **headers).status == 403
        assert operator.ask("DELETE", "/lists/black/192.0.2.1", **headers).status == 403
    assert operator.ask("POST", "/lists", said, host="evil.example").status == 421
    assert operator.ask("GET", "/lists", host="evil.example").status == 421
    answer = operator.ask("OPTIONS", "/lists", origin="http://127.0.0.1:9000")
    assert answer.status in {404, 405}
    assert not any(name.startswith(b"access-control") for name, _ in answer.headers)
    assert operator.json("GET", "/lists")[1]["entries"] == []


def test_with_a_token(tmp_path):
    operator = Operator(tmp_path, f"[admin]\ntoken = '{TOKEN}'\n")
    try:
        for headers in (
            {},
            {"authorization": "Bearer x"},
            {"authorization": TOKEN},
            {"authorization": f"Basic {TOKEN}"},
        ):
            assert operator.ask("GET", "/lists", **headers).status == 401
            assert operator.ask("DELETE", "/lists/black/192.0.2.1", **headers).status == 401
        assert operator.ask("GET", "/lists", authorization=f"Bearer {TOKEN}").status == 200
        assert operator.ask("GET", "/health").status == 200
    finally:
        operator.site.close()


def test_a_body_that_is_too_long_or_has_no_end(operator, monkeypatch):
    monkeypatch.setattr(module, "_MAX_BODY", 1000)
    assert operator.ask("POST", "/lists/import", raw=b"#" * 1001).status == 413

    async def cut_off():
        sent = []
        waiting = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"192.0.2.1\n", "more_body": True}]

        async def receive():
            return waiting.pop()

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http", "method": "POST", "path": "/lists/import", "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"content-type", b"text/csv")],
        }  # fmt: skip
        await operator.admin(scope, receive, send)
        return sent[0]["status"]

    assert asyncio.run(cut_off()) == 400
    assert operator.json("GET", "/lists")[1]["entries"] == []


def test_lists_that_are_switched_off(tmp_path):
    operator = Operator(tmp_path, "[lists]\nenabled = false\n")
    assert operator.ask("GET", "/lists").status == 404
    assert isinstance(operator.site.lists, Lists)


def test_a_store_that_is_broken(operator, tmp_path):
    (tmp_path / "lists.sqlite").write_bytes(b"This is no database." * 100)
    assert operator.ask("GET", "/lists").status == 503


def test_metrics(operator):
    operator.ask("POST", "/lists", {"list": "white", "subject": "192.0.2.1"})
    body = operator.ask("GET", "/metrics").body.decode()
    assert 'hedgerow_listed{list="white"} 1.0' in body
    assert 'hedgerow_listed{list="black"} 0.0' in body


def test_who_is_on_a_list_is_treated_so(operator):
    from driving import Application

    hedgerow = Hedgerow(Application(), site=operator.site, clock=Clock())

    def get(**options):
        from driving import Client

        client = Client.__new__(Client)
        client.hedgerow = hedgerow
        return client.get(**options)

    operator.ask("POST", "/lists", {"list": "black", "subject": "192.0.2.0/24", "reason": "secret", "author": "ann"})
    operator.ask("POST", "/lists", {"list": "white", "subject": "192.0.2.7"})
    answer = get()
    assert answer.status == 403
    assert answer.header("hedgerow-decision").startswith(b"refuse; code=list-black; ref=")
    assert answer.header("retry-after") is None
    assert b"This network is on the black list." in answer.body
    assert b"secret" not in answer.body
    assert b"come back" not in answer.body
    assert [get(peer="192.0.2.7").status for _ in range(60)] == [200] * 60
    # Who is refused by a list is not counted; who is let in is, for `containment.white_volume`.
    assert len(operator.site.stores.state) == 1
    refused, *passed = operator.site.stores.ledger
    assert refused.decision.evidence[0].details == "reason: secret; by: ann"
    assert {entry.decision.code for entry in passed} == {"list-white"}
