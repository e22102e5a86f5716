"""Strangers at the admin listener and the ban-list service: nobody gets in without the token, by no other way."""

from __future__ import annotations

import ast
import asyncio
import base64
import json
import re
import socket
import stat
import time
from pathlib import Path

import pytest

import hedgerow
from driving import Answer, Client
from hedgerow.core.decision import Block, Evidence
from hedgerow.services.banlist.endpoint import BanlistEndpoint
from hedgerow.web.admin import sessions
from hedgerow.web.admin.app import Admin
from hedgerow.web.admin.listener import bind_socket_file
from real.servers import HEDGEROW, Running, wait_for

TOKEN = "0123456789abcdef0123"
WITH_TOKEN = f"[admin]\ntoken = '{TOKEN}'\n"
PATHS = [
    "/",
    "/metrics",
    "/blocks",
    "/would-have-blocked",
    "/campaigns",
    "/models",
    "/lists",
    "/lists/export/plain",
    "/x",
]
BEARER = {"authorization": f"Bearer {TOKEN}"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


class Desk:
    """The admin listener of a site with a blocked visitor."""

    def __init__(self, text: str = "") -> None:
        self.site = Client(None, text).site
        now = time.time()
        evidence = Evidence("trap", "trap", 1.0, "Followed a hidden link.")
        self.site.stores.state.commit(Block("192.0.2.7", "192.0.2.7", now, now + 600, "refuse", evidence))
        self._admin = Admin(self.site)

    def ask(
        self, path: str = "/", method: str = "GET", *, peer: str | None = "127.0.0.1", body: bytes = b"", **headers
    ):
        given = {"host": "127.0.0.1:9000", **headers}
        scope = {
            "type": "http", "method": method, "path": path, "query_string": b"", "server": ("127.0.0.1", 9000),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
            "client": (peer, 5000) if peer is not None else None,
        }  # fmt: skip
        sent: list = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            sent.append(message)

        asyncio.run(self._admin(scope, receive, send))
        return Answer(sent[0]["status"], sent[0]["headers"], b"".join(m["body"] for m in sent[1:]), sent)

    @property
    def is_blocked(self) -> bool:
        return bool(self.site.stores.state.blocks(time.time()))


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_shown(path):
    """Our own: the token guarded /lists alone; overview, blocks, campaigns and metrics were open to everybody."""
    desk = Desk(WITH_TOKEN)
    answer = desk.ask(path)
    assert answer.status == 401
    assert b"192.0.2.7" not in answer.body
    assert desk.ask(path, **BEARER).status in {200, 404}


def test_without_the_token_nobody_is_forgiven():
    """Our own: `POST /forgive` needed no token."""
    desk = Desk(WITH_TOKEN)
    assert desk.ask("/forgive", "POST", body=b"key=192.0.2.7", **FORM).status == 401
    assert desk.is_blocked
    assert desk.ask("/forgive", "POST", body=b"key=192.0.2.7", **FORM, **BEARER).status == 303
    assert not desk.is_blocked


@pytest.mark.parametrize(
    "value",
    [
        TOKEN, f"Basic {TOKEN}", f"Token {TOKEN}", f"Bearer{TOKEN}", "Bearer", "Bearer ", f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x", f"Bearer x{TOKEN}", f"Bearer {TOKEN.upper()}", f"Bearer {TOKEN} {TOKEN}", "Bearer \xff",
    ],
)  # fmt: skip
def test_the_token_counts_as_bearer_alone(value):
    """Our own: the token of ban-list clients was taken under any scheme, such as `Authorization: Basic TOKEN`."""
    assert Desk(WITH_TOKEN).ask("/blocks", authorization=value).status == 401


@pytest.mark.parametrize("where", ["query", "cookie", "x-token"])
def test_the_token_counts_in_no_other_place(where):
    """Our own: a token in an address ends up in logs and histories."""
    desk = Desk(WITH_TOKEN)
    headers = {"cookie": f"token={TOKEN}; hedgerow-admin={TOKEN}"} if where == "cookie" else {"x-token": TOKEN}
    assert desk.ask(f"/blocks?token={TOKEN}" if where == "query" else "/blocks", **headers).status == 401


@pytest.mark.parametrize("scheme", ["Basic", "Token", "Digest", ""])
def test_ban_list_clients_are_known_by_bearer_alone(scheme):
    """Our own: `Authorization: Basic TOKEN` was accepted."""
    site = Client(None, f"[[serve.clients]]\nname = 'shop'\ntoken = '{TOKEN}'\n").site
    endpoint = BanlistEndpoint(site)
    shown = f"{scheme} {TOKEN}".strip().encode()
    assert endpoint._client({"headers": [(b"authorization", shown)]}) == ""
    assert endpoint._client({"headers": [(b"authorization", b"Bearer " + TOKEN.encode())]}) == "shop"


@pytest.mark.parametrize("path", [*PATHS, "/forgive"])
def test_without_a_token_in_the_settings_other_machines_get_nothing(path):
    """Our own: an admin listener on 0.0.0.0 without a token was open to everybody."""
    desk = Desk()
    for peer in ("192.0.2.9", "10.0.0.1", "2001:db8::1", "::ffff:192.0.2.9"):
        answer = desk.ask(path, "POST" if path == "/forgive" else "GET", peer=peer, body=b"key=192.0.2.7")
        assert answer.status == 403
        assert b"192.0.2.7" not in answer.body
    assert desk.is_blocked


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", None])
def test_without_a_token_in_the_settings_this_machine_may_ask(peer):
    """An operator on the machine needs nothing more, also through a Unix socket."""
    assert b"192.0.2.7" in Desk().ask(peer=peer).body


def test_health_is_open_and_says_nothing_about_visitors():
    """Load balancers have no token."""
    for desk in (Desk(WITH_TOKEN), Desk()):
        for path, text in (("/health", b"well\n"), ("/ready", b"well\n"), ("/live", b"alive\n")):
            answer = desk.ask(path, peer="192.0.2.9")
            assert (answer.status, answer.body) == (200, text)
        assert desk.ask("/health", "POST", peer="192.0.2.9").status in {401, 403}


# ---- Browsers


def log_in(desk: Desk) -> str:
    answer = desk.ask("/login", "POST", body=f"token={TOKEN}".encode(), origin="http://127.0.0.1:9000", **FORM)
    assert answer.status == 303
    cookie = answer.header("set-cookie").decode()
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    return cookie.partition(";")[0]


def test_a_browser_logs_in_by_a_form_and_out_again():
    """An operator can use the overview in a browser, which cannot send a Bearer token."""
    desk = Desk(WITH_TOKEN)
    form = desk.ask(accept="text/html")
    assert form.status == 401
    assert b'action="/login"' in form.body
    assert b"Bearer" not in form.body, "that is for programs"
    assert b"Bearer TOKEN" in desk.ask("/api/v1/now").body
    cookie = log_in(desk)
    assert b"192.0.2.7" in desk.ask(cookie=cookie).body
    origin = "http://127.0.0.1:9000"
    assert desk.ask("/forgive", "POST", body=b"key=192.0.2.7", cookie=cookie, origin=origin, **FORM).status == 403
    token = re.search(rb'name="form-token" content="(\w+)"', desk.ask(cookie=cookie).body)[1]
    body = b"key=192.0.2.7&form_token=" + token
    assert desk.ask("/forgive", "POST", body=body, cookie=cookie, origin=origin, **FORM).status == 303
    assert b"Max-Age=0" in desk.ask("/logout", "POST", cookie=cookie, origin=origin).header("set-cookie")


@pytest.mark.parametrize(
    "body", [b"", b"token=", b"token=wrong", b"token=" + TOKEN[:-1].encode(), b"token[]=x", b"x" * 50_000]
)
def test_a_wrong_token_in_the_form_gives_no_cookie(body):
    """Nor does an empty one, where the settings have none."""
    for desk in (Desk(WITH_TOKEN), Desk()):
        answer = desk.ask("/login", "POST", body=body, **FORM)
        assert answer.status == 401
        assert answer.header("set-cookie") is None


def test_a_session_cannot_be_made_up_or_prolonged_and_expires(monkeypatch):
    """Our own: time and signature belong together, and a cookie of another process or token is worth nothing."""
    desk = Desk(WITH_TOKEN)
    name, _, value = log_in(desk).partition("=")
    body, _, signature = value.partition(".")
    until = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))[3]
    later = base64.urlsafe_b64encode(json.dumps(["x", "", "operator", until + 1, ""]).encode()).decode()
    for forged in (f"{later}.{signature}", f"{body}.", body, ".", f"{body}.{signature[:-1]}", "9999." + signature):
        assert desk.ask("/blocks", cookie=f"{name}={forged}").status == 401
    assert desk.ask("/blocks", cookie=f"{name}={value}").status == 200
    assert Desk(WITH_TOKEN).ask("/blocks", cookie=f"{name}={value}").status == 401
    monkeypatch.setattr(sessions.time, "time", lambda: until + 1)
    assert desk.ask("/blocks", cookie=f"{name}={value}").status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8000"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/forgive", "/login", "/logout", "/lists"])
def test_csrf_a_page_of_another_site_cannot_post(path, headers):
    """CSRF: a form of another site in an operator's browser, with the operator's cookie and on the same machine."""
    for desk in (Desk(WITH_TOKEN), Desk()):
        cookie = {"cookie": log_in(desk)} if desk.site.app.settings.admin.token else {}
        body = b"key=192.0.2.7&token=" + TOKEN.encode()
        assert desk.ask(path, "POST", body=body, **FORM, **cookie, **headers).status == 403
        assert desk.is_blocked


@pytest.mark.parametrize(
    "host", ["evil.example:9000", "127.0.0.1.evil.example", "", "192.168.1.5:9000", "localhost.evil.example"]
)
@pytest.mark.parametrize("path", [*PATHS, "/health", "/login"])
def test_dns_rebinding_a_name_of_another_site_is_not_answered(path, host):
    """DNS rebinding: a page of evil.example has its name lead to 127.0.0.1, and reads what is there."""
    for desk in (Desk(WITH_TOKEN), Desk()):
        headers = {"host": host, **BEARER}
        answer = desk.ask(path, "POST" if path == "/login" else "GET", body=b"token=" + TOKEN.encode(), **headers)
        assert answer.status == 421
        assert answer.header("set-cookie") is None


def test_clickjacking_the_dashboard_cannot_be_framed():
    """Clickjacking: another site's page must not lay itself over the buttons."""
    assert b"frame-ancestors 'none'" in Desk().ask().header("content-security-policy")


# ---- Comparison of secrets

SECRETS = re.compile(r"_?(?:token|secret|password|signature|mac|check|made)|shown")
SOURCE = Path(hedgerow.__file__).parent
# The operator's own settings, compared with each other when they are checked; and a public signature with its own
# canonical form, after it was verified.
NOT_OF_STRANGERS = {"settings/tables.py", "cli/maintenance.py", "request/bot_signature.py"}


def compared_secrets(tree: ast.AST) -> list[int]:
    """The lines of a module in which something named like a secret is compared with something that is no constant."""

    def is_secret(node: ast.AST) -> bool:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return is_secret(node.func.value)
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        return SECRETS.fullmatch(name) is not None

    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            sides = [node.left, *node.comparators]
            if any(map(is_secret, sides)) and not any(
                isinstance(side, ast.Constant | ast.Set | ast.Tuple) for side in sides
            ):
                found.append(node.lineno)
    return found


def test_secrets_are_compared_in_constant_time():
    """Timing: `==` ends at the first difference, which tells a stranger how much of a guess was right."""
    found = {
        str(path.relative_to(SOURCE)): lines
        for path in SOURCE.rglob("*.py")
        if (lines := compared_secrets(ast.parse(path.read_text("utf-8"))))
    }
    assert set(found) <= NOT_OF_STRANGERS, f"use hmac.compare_digest: {found}"


def test_a_comparison_of_secrets_would_be_found():
    """The check itself finds what it looks for."""
    bad = "if token == self.token: pass\nif shown.strip() != own.token.encode(): pass\nif secret in known: pass\n"
    good = "if token == b'x': pass\nif compare_digest(token, shown): pass\nif token is None: pass\n"
    assert compared_secrets(ast.parse(bad)) == [1, 2, 3]
    assert compared_secrets(ast.parse(good)) == []


def test_a_unix_socket_is_for_its_owner_alone_and_needs_no_token(tmp_path):
    """Our own: a port on this machine is open to every account on it. A socket left by a killed process is replaced."""
    path = tmp_path / "admin.sock"
    for _ in range(2):
        with bind_socket_file(str(path)) as bound:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            with pytest.raises(OSError, match="in use"), bind_socket_file(str(path)):
                pass
            left = bound.dup()
        assert not path.exists()
        left.close()
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(path))
    with bind_socket_file(str(path)):
        pass


def test_a_gate_serves_its_operator_at_a_unix_socket(tmp_path):
    path = tmp_path / "admin.sock"
    command = [str(HEDGEROW), "protect", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", f"unix:{path}"]
    running = Running(
        command, tmp_path / "log", cwd=tmp_path, environment={"HEDGEROW__DIRECTORY": str(tmp_path / "state")}
    )
    try:
        wait_for("the socket", lambda: path.exists() or not running.alive)
        answers = {}
        for host in ("localhost", "evil.example"):
            with socket.socket(socket.AF_UNIX) as client:
                wait_for("an answer", lambda client=client: client.connect_ex(str(path)) == 0)
                client.sendall(f"GET /blocks HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                answers[host] = client.recv(100).split()[1]
        assert answers == {"localhost": b"200", "evil.example": b"421"}
    finally:
        assert running.stop() == 0, running.said()
    assert not path.exists()
