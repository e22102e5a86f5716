"""Commands act on the state of the service that runs, although a shell has another environment than a service."""

from __future__ import annotations

import os
import signal
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from hedgerow.cli.main import main
from hedgerow.cli.service import find_site
from hedgerow.errors import StoreError
from hedgerow.settings import load_settings
from hedgerow.web.asgi import Hedgerow
from hedgerow.web.audit import AuditLog
from hedgerow.web.run_file import find_running, write_run_file
from hedgerow.web.watch import bundle_in_use, model_files
from real.servers import HEDGEROW, Running, free_port, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def shell(monkeypatch, capsys, tmp_path):
    """Runs a command as an administrator does: without the environment of the service."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hedgerow", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, said.err

    return run


@contextmanager
def service(folder: Path, name: str = "service", *options: str, **environment: str):
    """A service as systemd starts it, with a state directory that only its environment names."""
    port, upstream = free_port(), free_port()
    state = folder / name
    state.mkdir()
    running = Running(
        [str(HEDGEROW), "protect", f"http://127.0.0.1:{upstream}", "--listen", f"127.0.0.1:{port}", *options],
        folder / f"{name}.log", cwd=folder, environment={"STATE_DIRECTORY": str(state), **environment},
    )  # fmt: skip
    try:
        wait_for("the service", lambda: responds(port) or not running.alive)
        yield running, port
    finally:
        running.stop()


def responds(port: int) -> bool:
    """Whether the service answers requests. It accepts connections before it has written its run file."""
    try:
        return status_of(port) > 0
    except OSError:
        return False


def status_of(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["one process", "workers"])
def test_lists_and_blocks_take_effect_in_the_running_service(shell, tmp_path, options):
    with service(tmp_path, "service", *options) as (running, port):
        assert status_of(port) == 502
        status, out, err = shell("lists", "add", "black", "127.0.0.1")
        assert (status, out) == (0, "127.0.0.1 is on the black list for good\n")
        assert err == f"using {tmp_path}/service, where Hedgerow is running (process {running.pid})\n"
        wait_for("the list in force", lambda: status_of(port) == 403)
        assert shell("lists", "remove", "black", "127.0.0.1")[0] == 0
        wait_for("the list without the entry", lambda: status_of(port) == 502)
        assert shell("visitors", "block", "127.0.0.1")[0] == 0
        wait_for("the block in force", lambda: status_of(port) == 403)
        assert shell("visitors", "forgive", "127.0.0.1")[0] == 0
        wait_for("the forgiveness", lambda: status_of(port) == 502)
    assert not (tmp_path / "home").exists()
    assert find_running() == ([], [])


@pytest.mark.parametrize("options", [(), ("--workers", "2"), ("--observe",)], ids=["one", "workers", "observing"])
def test_a_state_in_memory_is_asked_and_changed_through_the_service(shell, tmp_path, options):
    listener = f"unix:{tmp_path}/admin.sock" if options else f"127.0.0.1:{free_port()}"
    token = {} if options else {"HEDGEROW__ADMIN__TOKEN": "a-long-secret-of-the-test-0123456789"}
    with service(tmp_path, "service", "--admin", listener, *options, HEDGEROW__STATE__DURABLE="false", **token) as at:
        _, port = at
        assert shell("visitors", "show")[0] == 0
        assert shell("visitors", "block", "127.0.0.1", "--reason", "by hand")[0] == 0
        observes = options == ("--observe",)
        wait_for("the block", lambda: observes or status_of(port) == 403)
        shown = shell("visitors", "show")[1]
        assert "127.0.0.1" in shown
        assert ("would have" in shown) is observes
        assert shell("campaigns", "show")[1] == "no campaigns\n"
        assert shell("visitors", "forgive", "127.0.0.1")[0] == 0
        assert shell("visitors", "forgive", "127.0.0.1")[0] == 1
        assert shell("attack", "on", "--for", "5m")[0] == 0
        assert shell("attack", "status")[1].startswith("on since")
        assert shell("attack", "off")[1] == "no longer under attack\n"
        assert shell("attack", "off")[1] == "it was not on\n"
        changes = [row.change for row in AuditLog(find_site(None)).read()[0]]
        assert changes == ["now.end-attack", "now.attack", "visitor.forgive", "visitor.ban"]


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["one process", "workers"])
def test_new_keys_and_models_are_used_by_the_running_service(shell, tmp_path, options):
    """Files alone do not do that: the service reads them only when it is told to, by the API."""
    with service(tmp_path, "service", "--admin", f"unix:{tmp_path}/admin.sock", *options) as (running, _):
        status, out, _ = shell("keys", "rotate")
        assert status == 0
        assert "the running Hedgerow uses it\n" in out
        wait_for("the reload", lambda: "reloaded the settings" in running.said())
        status, _, err = shell("models", "promote")
        assert status == 1
        assert "there is no shadow bundle for paths; hedgerow train creates one" in err
        files = model_files(find_site(None))
        files.put_shadow(bundle_in_use(find_site(None), "paths"))
        assert "the running Hedgerow uses it;" in shell("models", "promote", "--force")[1]
        wait_for("the second reload", lambda: running.said().count("reloaded the settings") >= 2)
        changes = [(row.change, row.who) for row in AuditLog(find_site(None)).read()[0]]
        assert [change for change, _ in changes] == ["models.promote", "settings.reload", "keys.rotate"]
    assert "Hedgerow uses it when it starts" in shell("models", "back", "--directory", str(tmp_path / "service"))[1]


def test_without_the_api_a_command_says_what_to_do(shell, tmp_path):
    with service(tmp_path):
        assert "send SIGHUP to the running Hedgerow, which has no admin listener" in shell("keys", "rotate")[1]
    users = "[[admin.users]]\nname = 'a'\npassword = '$argon2id$x'\n"
    (tmp_path / "users.toml").write_text(users)
    options = ("--admin", f"127.0.0.1:{free_port()}", "--config", str(tmp_path / "users.toml"))
    with service(tmp_path, "second", *options):
        said = shell("keys", "rotate")[1]
        assert "send SIGHUP to the running Hedgerow: the admin listener at" in said
        assert "commands cannot log in with a password" in said


def test_a_state_in_memory_without_an_admin_listener_is_a_line(shell, tmp_path):
    with service(tmp_path, HEDGEROW__STATE__DURABLE="false"):
        status, _, err = shell("visitors", "block", "192.0.2.7")
    assert status == 1
    assert "set listen in [admin]" in err


def test_a_service_that_is_named_by_its_directory_has_its_own_settings(shell, tmp_path):
    """A file in the current folder may be that of another service."""
    config = tmp_path / "service.toml"
    config.write_text("[[site]]\nname = 'shop'\nhosts = ['shop.example']\nupstream = 'http://127.0.0.1:1'\n")
    with service(tmp_path, "service", "--config", str(config)):
        (tmp_path / "hedgerow.toml").write_text("[lists]\nenabled = false\n")
        options = ("--directory", str(tmp_path / "service"))
        assert shell("lists", "add", "black", "192.0.2.1", *options)[0] == 0
        assert shell("lists", "add", "black", "192.0.2.1", "--site", "shop", *options)[0] == 0
        assert (
            "lists have no effect"
            in shell(
                "lists",
                "add",
                "black",
                "192.0.2.2",
                "--config",
                "hedgerow.toml",
                "--directory",
                str(tmp_path / "other"),
            )[2]
        )


def test_settings_that_name_no_directory_are_those_of_the_service_that_uses_them(shell, tmp_path):
    (tmp_path / "site.toml").write_text("[policy]\nchallenges = 1\n")
    with service(tmp_path, "service", "--config", "site.toml"):
        _, _, err = shell("lists", "add", "black", "192.0.2.1", "--config", str(tmp_path / "site.toml"))
        assert f"using {tmp_path}/service, where" in err
        # Settings in the folder of the shell are not those of the service.
        (tmp_path / "hedgerow.toml").write_text("")
        status, out, err = shell("lists", "add", "black", "192.0.2.2")
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert f"but Hedgerow is running with {tmp_path}/service; name" in err


def test_settings_from_the_environment_of_the_service_hold_for_commands(shell, tmp_path):
    with service(tmp_path, HEDGEROW__LISTS__PATH="own.sqlite"):
        assert shell("lists", "add", "black", "192.0.2.1")[0] == 0
    assert (tmp_path / "own.sqlite").is_file()
    assert not (tmp_path / "service" / "lists.sqlite").exists()


def test_a_variable_names_the_settings_of_the_service(shell, tmp_path, monkeypatch):
    """As the package of Debian does: without a running service, commands would use other stores than the service."""
    config = tmp_path / "service.toml"
    config.write_text(f"directory = '{tmp_path}/service'\n[lists]\nenabled = false\n")
    monkeypatch.setenv("HEDGEROW_CONFIG", str(config))
    assert "lists have no effect" in shell("lists", "add", "black", "192.0.2.1")[2]
    (tmp_path / "hedgerow.toml").write_text(f"directory = '{tmp_path}/here'\n")
    assert f"using {tmp_path}/here;" in shell("lists", "add", "black", "192.0.2.1")[2]
    (tmp_path / "hedgerow.toml").unlink()
    with service(tmp_path, "service", "--config", str(config), HEDGEROW__LISTS__ENABLED="true"):
        status, _, err = shell("lists", "add", "black", "192.0.2.1")
        assert (status, "where Hedgerow is running" in err) == (0, True), "the settings in force count"
        monkeypatch.setenv("HEDGEROW__DIRECTORY", f"{tmp_path}/service")
        assert shell("lists", "add", "black", "192.0.2.2")[0] == 0
    assert "lists have no effect" in shell("lists", "add", "black", "192.0.2.3")[2]


def test_one_of_two_services_must_be_named(shell, tmp_path):
    with service(tmp_path, "one"), service(tmp_path, "two"):
        status, out, err = shell("visitors", "block", "192.0.2.1")
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert f"{tmp_path}/one and {tmp_path}/two; name one with --directory" in err
        status, out, err = shell("visitors", "block", "192.0.2.1", "--directory", str(tmp_path / "two"))
        assert status == 0
        assert f"using {tmp_path}/two, where Hedgerow is running" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("lists", "add", "black", "192.0.2.1"), ("visitors", "block", "192.0.2.1"),
        ("visitors", "forgive", "192.0.2.1"),
        ("visitors", "block", "192.0.2.1", "--directory", "elsewhere"), ("lists", "show"), ("models", "show"),
        ("keys", "rotate"), ("migrate",), ("campaigns", "show"), ("limits",), ("bots", "update"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_where_no_gate_has_run_a_command_is_refused(shell, tmp_path, arguments):
    (tmp_path / "elsewhere").mkdir()
    status, out, err = shell(*arguments)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "no Hedgerow has run with the directory" in err
    assert "--directory" in err
    assert not (tmp_path / "home").exists()
    assert not any((tmp_path / "elsewhere").iterdir())


def test_lists_may_be_prepared_where_they_are_named(shell, tmp_path):
    (tmp_path / "site.toml").write_text(f'directory = "{tmp_path}/new"\n')
    for named in (("--config", "site.toml"), ("--directory", "other")):
        status, _, err = shell("lists", "add", "black", "192.0.2.1", *named)
        assert status == 0
        assert "; no Hedgerow is running there: changes take effect when one starts\n" in err
    assert (tmp_path / "new" / "lists.sqlite").is_file()
    assert (tmp_path / "other" / "lists.sqlite").is_file()


def test_a_killed_service_does_not_count_as_running(shell, tmp_path):
    with service(tmp_path) as (running, _):
        wait_for("the run file", lambda: find_running()[0])
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
        left = list(Path(os.environ["RUNTIME_DIRECTORY"]).iterdir())
        assert len(left) == 1
        assert find_running() == ([], [])
        assert shell("lists", "add", "black", "192.0.2.1")[0] == 1
        # The next one that starts removes the file.
        write_run_file(load_settings(None), None).close()
        assert not left[0].exists()


def test_the_middleware_is_found_as_well(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "service"))
    app = Hedgerow(lambda *_: None)
    monkeypatch.delenv("STATE_DIRECTORY")
    assert shell("visitors", "block", "192.0.2.1")[0] == 0
    app.site.close()
    assert shell("visitors", "block", "192.0.2.1")[0] == 1


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_user_who_may_not_read_the_run_file_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    for folder in [tmp_path, *tmp_path.parents[:3]]:
        folder.chmod(0o755)
    file = write_run_file(load_settings(None), None)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            find_site(None)
        except StoreError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        assert "run this command as root or as the user of the service" in said.read()
    os.waitpid(child, 0)
    # The end of a fork does not remove the file.
    assert len(find_running()[0]) == 1
    file.close()
    assert find_running() == ([], [])
