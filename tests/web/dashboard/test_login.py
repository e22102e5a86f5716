"""Logging in to the dashboard: brute force, fixation, forged forms, roles."""

from __future__ import annotations

import asyncio

import pytest

from hedgerow.errors import SettingsError
from hedgerow.web.admin import login_limit
from hedgerow.web.admin.login_limit import FAILURES, SECONDS, LoginLimit
from hedgerow.web.admin.passwords import hash_password, is_password
from hedgerow.web.dashboard import app as dashboard_app
from web.dashboard.desk import FORM, HASH, ORIGIN, PASSWORD, USERS, Desk


def test_a_password_is_recognised_and_no_other():
    assert is_password(PASSWORD, HASH)
    assert not is_password(PASSWORD + "x", HASH)
    assert hash_password(PASSWORD) != HASH, "each has a salt of its own"


def test_a_hash_that_makes_no_sense_fits_no_password():
    strange = "$argon2id$v=19$m=1,t=0,p=0$YQ$YQ"
    for stored in ("", "$argon2id$", PASSWORD, strange, HASH[:-1] + "!", "$argon2i" + HASH[9:]):
        assert not is_password(PASSWORD, stored)


def test_a_password_in_plain_text_is_no_setting():
    with pytest.raises(SettingsError, match="hedgerow password"):
        Desk(text="[[admin.users]]\nname = 'a'\npassword = 'secret'\n")


def test_a_user_logs_in_and_sees_the_dashboard(tmp_path):
    desk = Desk(tmp_path)
    assert b'name="name"' in desk.ask(accept="text/html").body
    assert desk.ask("/api/v1/now").status == 401
    assert desk.log_in().status == 303
    assert b"Is the site being crawled?" in desk.ask().body
    assert b"Log out alice" in desk.ask().body


def test_after_the_login_comes_the_page_that_was_asked_for(tmp_path):
    desk = Desk(tmp_path)
    form = desk.ask("/dashboard/visitor?visitor=192.0.2.1&x=%0d%0a", accept="text/html").body.decode()
    assert 'name="back" value="/dashboard/visitor?visitor=192.0.2.1&amp;x=%0d%0a"' in form
    assert desk.log_in(back="/dashboard/visitor?visitor=192.0.2.1").header("location").endswith(b"visitor=192.0.2.1")
    for back in (
        "//evil.example/dashboard/a",
        "https://evil.example",
        "/\\evil.example",
        "/x\r\nset-cookie: a=b",
        "/login",
    ):
        assert desk.log_in(back=back).header("location") == b"/"
    assert b"\r" not in desk.log_in(back="/dashboard/a\r\nset-cookie: a=b").header("location")


def test_brute_force_of_a_login_is_stopped_after_five_tries(tmp_path, monkeypatch):
    desk = Desk(tmp_path)
    for number in range(FAILURES):
        assert desk.log_in(password=f"guess {number}").status == 401
    answer = desk.log_in()
    assert answer.status == 429, "the right password is not tried any more"
    assert 0 < int(answer.header("retry-after")) <= SECONDS + 1
    body = b"name=alice&password=" + PASSWORD.replace(" ", "+").encode()
    assert desk.ask("/login", "POST", body=body, peer="192.0.2.9", **FORM).status == 303, "others are not locked out"
    import time as clock

    now = clock.time()
    monkeypatch.setattr("hedgerow.web.admin.access.time.time", lambda: now + SECONDS + 1)
    assert desk.log_in().status == 303


def test_the_limit_counts_ipv6_networks_and_forgets():
    limit = LoginLimit()
    for number in range(FAILURES):
        limit.fail(f"2001:db8::{number}", 100.0)
    assert limit.wait("2001:db8::ff", 100.0) == SECONDS
    assert limit.wait("2001:db9::1", 100.0) == 0
    assert limit.wait("2001:db8::ff", 101.0 + SECONDS) == 0
    limit.succeed("2001:db8::1")
    assert limit.wait("2001:db8::ff", 100.0) == 0


def test_the_limit_has_a_size(monkeypatch):
    monkeypatch.setattr(login_limit, "_MAX_ADDRESSES", 3)
    limit = LoginLimit()
    for number in range(10):
        limit.fail(f"192.0.2.{number}", 1.0)
    assert len(limit._failures) == 3


def test_session_fixation_a_planted_cookie_does_not_become_the_operators(tmp_path):
    """Session fixation: the cookie from before the login is worth nothing after it, and each login has its own."""
    desk = Desk(tmp_path)
    desk.cookie = "hedgerow-admin=planted.0000"
    first = desk.log_in().header("set-cookie")
    assert b"planted" not in first
    planted = desk.cookie
    second = desk.log_in().header("set-cookie")
    assert first != second
    assert planted != desk.cookie


def test_a_logout_ends_the_session_for_copies_of_the_cookie_too(tmp_path):
    desk = Desk(tmp_path)
    desk.log_in()
    assert desk.ask("/logout", "POST", origin=ORIGIN).status == 303
    assert desk.ask("/api/v1/now").status == 401


def test_live_updates_end_with_the_session(tmp_path, monkeypatch):
    """A page that was open when its user logged out went on to get everything."""
    monkeypatch.setattr(dashboard_app, "_LIVE_EVERY", 0.5)
    desk = Desk(tmp_path)
    desk.log_in()
    sessions = desk._admin._access._sessions
    events: list[bytes] = []

    async def receive():
        await asyncio.sleep(60)

    async def send(message):
        if message.get("body"):
            events.append(message["body"])
            sessions.end(sessions.find(desk.cookie.encode(), desk.site.app.settings.admin))

    headers = [(b"host", b"127.0.0.1:9000"), (b"cookie", desk.cookie.encode())]
    scope = {
        "type": "http", "method": "GET", "path": "/dashboard/now/live", "raw_path": b"", "query_string": b"",
        "server": ("127.0.0.1", 9000), "client": ("127.0.0.1", 5000), "scheme": "http", "http_version": "1.1",
        "headers": headers,
    }  # fmt: skip
    asyncio.run(asyncio.wait_for(desk._admin(scope, receive, send), 20))
    assert len(events) == 1


def test_a_session_ends_with_its_user(tmp_path):
    desk = Desk(tmp_path)
    desk.log_in()
    assert desk.ask("/api/v1/now").status == 200
    from driving import settings

    desk.site.reload(settings(f"directory = '{tmp_path}'\n" + USERS.replace("'alice'", "'anna'")))
    assert desk.ask("/api/v1/now").status == 401


def test_csrf_a_form_needs_the_token_of_its_page(tmp_path):
    """CSRF, where a browser sends neither Origin nor Sec-Fetch-Site."""
    desk = Desk(tmp_path)
    desk.log_in()
    body = b"list=white&subject=192.0.2.7"
    assert desk.ask("/dashboard/lists/add", "POST", body=body, **FORM).status == 403
    assert desk.post("/dashboard/lists/add", token="0" * 64, list="white", subject="192.0.2.7").status == 403
    assert (
        desk.ask(
            "/api/v1/lists/add",
            "POST",
            body=b'{"list": "white", "subject": "192.0.2.7"}',
            content_type="application/json",
        ).status
        == 403
    )
    assert desk.read("lists")["total"] == 0
    assert desk.post("/dashboard/lists/add", list="white", subject="192.0.2.7").status == 303
    assert desk.read("lists")["total"] == 1


def test_a_token_of_another_session_does_not_fit(tmp_path):
    desk = Desk(tmp_path)
    desk.log_in()
    other = desk.form_token()
    desk.log_in()
    assert desk.post("/dashboard/lists/add", token=other, list="white", subject="192.0.2.7").status == 403


def test_on_this_machine_without_a_login_forms_need_the_token_as_well(tmp_path):
    desk = Desk(tmp_path, "")
    assert desk.ask("/dashboard/lists/add", "POST", body=b"list=white&subject=192.0.2.7", **FORM).status == 403
    assert desk.post("/dashboard/lists/add", list="white", subject="192.0.2.7").status == 303


def test_a_viewer_sees_everything_and_changes_nothing(tmp_path):
    desk = Desk(tmp_path)
    desk.log_in("bob")
    assert desk.ask("/dashboard/lists").status == 200
    assert b"form_token" not in desk.ask("/dashboard/lists").body
    for path in ("/dashboard/lists/add", "/api/v1/lists/add", "/forgive", "/lists"):
        assert desk.ask(path, "POST", body=b"{}", content_type="application/json").status == 403
    assert desk.ask("/logout", "POST").status == 303


def test_a_viewer_token_reads_only(tmp_path):
    desk = Desk(tmp_path, "[admin]\nviewer_token = 'abcdefghijklmnop'\n")
    bearer = {"authorization": "Bearer abcdefghijklmnop"}
    assert desk.ask("/api/v1/now", **bearer).status == 200
    assert desk.ask("/api/v1/lists/add", "POST", body=b"{}", content_type="application/json", **bearer).status == 403


@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_a_form_leads_to_no_other_site(tmp_path, back):
    desk = Desk(tmp_path)
    desk.log_in()
    answer = desk.post("/dashboard/lists/add", list="white", subject="192.0.2.7", back=back)
    assert answer.header("location").startswith(b"/dashboard/lists?done=")
