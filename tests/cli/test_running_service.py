"""Commands ask the running service if they can log in there, and use its files otherwise."""

from __future__ import annotations

import re
import sys
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from hedgerow.cli import running_service
from hedgerow.cli.main import main
from hedgerow.web.app import Site
from hedgerow.web.asgi import Hedgerow
from hedgerow.web.audit import AuditLog
from real.servers import free_port
from web.dashboard.desk import HASH

from .said import without_place

TOKEN = "a-long-secret-of-the-test-0123456789"
ME = "192.0.2.7"
BY_FILES = ("ann", "command line")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs a command as an administrator does; gives exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SUDO_USER", "ann")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hedgerow", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, without_place(said.err)

    return run


@contextmanager
def service(state: Path, listen: str, admin: str = "", top: str = ""):
    """A middleware that runs with its admin listener and its run file."""
    state.mkdir(exist_ok=True)
    config = state / "settings.toml"
    config.write_text(f"directory = '{state}'\n{top}[admin]\nlisten = '{listen}'\n{admin}")
    app = Hedgerow(lambda *_: None, config=config)
    try:
        yield app.site
    finally:
        app.site.close()


def changes(site: Site) -> list[tuple[str, str, str]]:
    """Who made which changes, the first one first."""
    return [(one.who, one.source, one.change) for one in reversed(AuditLog(site.app.settings).read()[0])]


def local(_: Path) -> str:
    return f"127.0.0.1:{free_port()}"


def socket(folder: Path) -> str:
    return f"unix:{folder}/admin.sock"


@pytest.mark.parametrize(
    ("listen", "admin", "who", "source"),
    [
        (local, f"token = '{TOKEN}'\n", "ann, token (operator)", "127.0.0.1"),
        (local, "", "ann, local", "127.0.0.1"),
        (socket, "", "ann, local", "local"),
        (socket, f"token = '{TOKEN}'\n", "ann, token (operator)", "local"),
        (local, f"[[admin.users]]\nname = 'a'\npassword = '{HASH}'\n", *BY_FILES),
        (local, f"viewer_token = '{TOKEN}'\n", *BY_FILES),
        (local, f"token = '{TOKEN}'\n[[admin.users]]\nname = 'a'\npassword = '{HASH}'\n", "ann, token (operator)",
         "127.0.0.1"),
    ],
    ids=["token", "open", "socket", "socket and token", "password", "viewer token", "password and token"],
)  # fmt: skip
def test_the_way_in_decides(run, tmp_path, listen, admin, who, source):
    """Each change is in the audit log once, by whom it was made."""
    with service(tmp_path / "state", listen(tmp_path), admin) as site:
        assert run("lists", "add", "black", ME) == (0, f"{ME} is on the black list for good\n", "")
        assert run("lists", "change", "black", ME, "--reason", "x")[0] == 0
        assert run("lists", "remove", "black", ME)[0] == 0
        assert run("visitors", "block", ME)[::2] == (0, "")
        assert run("visitors", "forgive", ME)[0] == 0
        assert run("attack", "on")[0] == 0
        assert run("attack", "off")[0] == 0
        found = changes(site)
    is_by_api = (who, source) != BY_FILES
    names = ["lists.add", "lists.change", "lists.remove"]
    names += (
        ["visitor.ban", "visitor.forgive", "now.attack", "now.end-attack"]
        if is_by_api
        else ["visitors.block", "visitors.forgive", "attack.on", "attack.off"]
    )
    assert found == [(who, source, name) for name in names]


def test_a_service_without_an_admin_listener_is_not_asked(run, tmp_path):
    with service(tmp_path / "state", "") as site:
        assert run("visitors", "block", ME)[::2] == (0, "")
        assert changes(site) == [(*BY_FILES, "visitors.block")]


def test_without_a_service_nobody_is_asked(run, tmp_path):
    with service(tmp_path / "state", local(tmp_path)) as site:
        pass
    assert run("visitors", "block", ME, "--directory", str(tmp_path / "state"))[::2] == (0, "")
    assert changes(site) == [(*BY_FILES, "visitors.block")]


def test_a_listener_that_does_not_answer_is_one_line_and_nothing_is_lost(run, tmp_path):
    """As in the second of two services with one address: it runs, and has no admin listener."""
    listen = local(tmp_path)
    with service(tmp_path / "state", listen) as site:
        site.admin.close()
        status, out, err = run("visitors", "block", ME)
        assert (status, err.count("\n")) == (0, 1)
        assert f"the admin listener at {listen} does not respond: Connection refused; using the files" in err
        assert ME in run("visitors", "show")[1]
        assert changes(site) == [(*BY_FILES, "visitors.block")]
        assert out.startswith(f"{ME} is blocked until")


def test_another_service_at_the_address_is_not_changed(run, tmp_path):
    listen = local(tmp_path)
    with ExitStack() as stack:
        first = stack.enter_context(service(tmp_path / "one", listen))
        second = stack.enter_context(service(tmp_path / "two", listen))
        status, _, err = run("lists", "add", "black", ME, "--directory", str(tmp_path / "two"))
        assert status == 0
        assert f"is of the service with {tmp_path}/one; using the files of the service instead\n" in err
        assert changes(first) == []
        assert changes(second) == [(*BY_FILES, "lists.add")]


def test_a_token_that_was_changed_meanwhile_is_said(run, tmp_path):
    """Commands know the settings with which the service started."""
    with service(tmp_path / "state", local(tmp_path), f"token = '{TOKEN}'\n") as site:
        own = site.app.settings
        site.reload(replace(own, admin=replace(own.admin, token=TOKEN[::-1])))
        status, _, err = run("lists", "add", "black", ME)
        assert (status, err.count("\n")) == (0, 1)
        assert "status 401, it has another token; using the files of the service instead" in err
        assert changes(site) == [(*BY_FILES, "lists.add")]


def test_what_only_observing_found_is_asked_for_and_the_rest_read_from_files(run, tmp_path):
    """A block by hand is in force as soon as observing ends, so it is put into both stores, and audited once."""
    with service(tmp_path / "state", local(tmp_path), top="observe = true\n") as site:
        assert run("visitors", "block", ME)[::2] == (0, "")
        shown = run("visitors", "show")[1]
        assert re.search(rf"{ME} +blocked until", shown)
        assert re.search(rf"{ME} +would have blocked until", shown)
        assert [block.key for block in site.stores.state.blocks(0.0)] == [ME]
        assert run("visitors", "forgive", ME)[0] == 0
        assert run("visitors", "show")[1] == "nobody is suspected or blocked\n"
        assert [change for *_, change in changes(site)] == ["visitor.ban", "visitor.forgive"]
        # What is only in the file is forgiven there, and the command itself is in the log.
        assert run("visitors", "block", ME)[0] == 0
        site.stores.state.forgive(ME)
        assert run("visitors", "forgive", ME)[0] == 0
        assert changes(site)[-1] == (*BY_FILES, "visitors.forgive")


def test_lists_of_many_entries_come_in_parts_and_large_imports_go_around_the_service(run, tmp_path, monkeypatch):
    monkeypatch.setattr(running_service, "_ROWS_AT_ONCE", 3)
    monkeypatch.setattr("hedgerow.cli.list_store.MAX_IMPORT", 10)
    small, large = tmp_path / "small.txt", tmp_path / "large.txt"
    small.write_text("".join(f"192.0.2.{number}\n" for number in range(10)))
    large.write_text("".join(f"198.51.100.{number}\n" for number in range(11)))
    with service(tmp_path / "state", local(tmp_path)) as site:
        assert run("lists", "import", str(small), "--reason", "feed")[1] == "10 entries imported (plain)\n"
        assert run("lists", "import", str(large))[1] == "11 entries imported (plain)\n"
        assert run("lists", "show", "--json")[1].count("subject") == 21
        assert run("lists", "show", "--limit", "5")[1].count("192.0.2.") == 5
        assert "more entries" in run("lists", "show", "--limit", "5")[2]
        assert run("lists", "export", "plain")[1].count("\n") == 21
        assert [(who, change) for who, _, change in changes(site)] == [
            ("ann, local", "lists.import"), ("ann", "lists.import"),
        ]  # fmt: skip
        (tmp_path / "bad.txt").write_text("203.0.113.1\nword\n")
        assert run("lists", "import", str(tmp_path / "bad.txt"))[0] == 1
        assert run("lists", "show", "--json")[1].count("subject") == 21


def test_a_large_state_comes_in_parts(run, tmp_path, monkeypatch):
    monkeypatch.setattr(running_service, "_ROWS_AT_ONCE", 2)
    with service(tmp_path / "state", local(tmp_path)):
        for number in range(7):
            assert run("visitors", "block", f"192.0.2.{number}")[0] == 0
        assert run("visitors", "show")[1].count("192.0.2.") == 7
        assert run("lists", "show", "--blocks")[1].count("192.0.2.") == 7


def test_what_the_service_cannot_do_now_is_an_error(run, tmp_path, monkeypatch):
    """As while Redis is away: it will be done later, but the command must not say that it is done."""
    with service(tmp_path / "state", local(tmp_path)) as site:
        assert run("visitors", "block", ME)[0] == 0
        monkeypatch.setattr(site.stores.state, "forgive", lambda _: None)
        assert run("visitors", "forgive", ME) == (
            1, "", "hedgerow: Redis does not answer. The visitor will be forgiven as soon as it does.\n",
        )  # fmt: skip
        monkeypatch.setattr(site, "follower", None)
        assert run("lists", "add", "black", ME) == (1, "", "hedgerow: Lists are switched off.\n")
        assert [change for *_, change in changes(site)] == ["visitor.ban"]


def test_an_answer_that_is_lost_leaves_open_whether_the_change_was_made(run, tmp_path, monkeypatch):
    with service(tmp_path / "state", local(tmp_path)):
        answered = threading.Event()
        monkeypatch.setattr(running_service, "_TIMEOUT", 2.0)
        monkeypatch.setattr("hedgerow.web.dashboard.pages.visitor.Block", lambda *_: answered.wait(60))
        status, out, err = run("visitors", "block", ME)
        answered.set()
        assert (status, out) == (1, "")
        assert err.endswith("does not respond: timed out; the change may have been made\n")


def test_a_name_that_is_no_text_is_an_error(run, tmp_path):
    with service(tmp_path / "state", local(tmp_path)):
        for arguments in (("block", "\udcff"), ("forgive", "\udcff"), ("show", "\udcff")):
            status, out, err = run("visitors", *arguments)
            assert (status, out, err) == (1, "", "hedgerow: what is named is not valid text in UTF-8\n")


def test_what_the_service_refuses_is_an_error(run, tmp_path):
    with service(tmp_path / "state", local(tmp_path)) as site:
        status, out, err = run("visitors", "block", ME, "--reason", "x" * 501)
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert "reason" in err
        assert changes(site) == []
