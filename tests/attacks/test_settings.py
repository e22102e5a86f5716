"""Hostile and careless settings: `hedgerow check` says what they would do, and secrets stay out of what it says."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from driving import settings
from hedgerow.cli.main import main
from hedgerow.errors import SettingsError
from hedgerow.settings.dangers import dangers
from hedgerow.state.redis.address import parse_redis_address
from real.servers import HEDGEROW, Running, free_port, wait_for

SECRET = "correct-horse-battery"


@pytest.fixture
def check(monkeypatch, capsys, tmp_path):
    """What `hedgerow check` says of a settings file, and its exit status."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, *, mode: int = 0o600) -> tuple[int, str]:
        file = tmp_path / "hedgerow.toml"
        file.write_text(text)
        file.chmod(mode)
        monkeypatch.setattr(sys, "argv", ["hedgerow", "check"])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return end.value.code, said.err

    return run


DANGEROUS = {
    "identity.trusted_proxies": '[identity]\ntrusted_proxies = ["0.0.0.0/0"]\n',
    "identity.trusted_proxies: ::/0": '[identity]\ntrusted_proxies = ["10.0.0.0/8", "::/0"]\n',
    "identity.bots.0.networks": '[identity]\nbots = [{ name = "x", networks = ["0.0.0.0/0"], user_agent = "x" }]\n',
    "admin.listen": '[admin]\nlisten = "0.0.0.0:8081"\n',
    "admin.listen: :8081": '[admin]\nlisten = ":8081"\n',
    "admin.listen: 192.0.2.1:8081": '[admin]\nlisten = "192.0.2.1:8081"\n',
    "density.windows.0.seconds": "[[density.windows]]\ncount = 5\nseconds = 1e308\n",
    "policy.block_for": "[policy]\nblock_for = 1e300\n",
    "marker.rules.0": f'[[marker.rules]]\npath = "/{"*a" * 40}"\nmode = "off"\n',
    "marker.closed.0": f'[marker]\nclosed = ["/{"*a" * 40}"]\n',
}


@pytest.mark.parametrize("name", DANGEROUS)
def test_dangerous_settings_are_warned_about(check, name):
    """Our own: nothing was said of any of these. A warning has the line, and what to do; the status stays 0."""
    status, said = check("# settings\n" + DANGEROUS[name])
    assert status == 0
    assert f"warning: {name.partition(':')[0]}: " in said
    assert ";" in said
    line = int(said.partition("hedgerow.toml:")[2].partition(":")[0])
    assert line in {2, 3, 4}
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        '[identity]\ntrusted_proxies = ["127.0.0.1/32", "10.0.0.0/8", "104.16.0.0/13", "2400:cb00::/32"]\n',
        '[admin]\nlisten = "127.0.0.1:8081"\n',
        '[admin]\nlisten = "localhost:8081"\n',
        '[admin]\nlisten = "[::1]:8081"\n',
        f'[admin]\nlisten = "0.0.0.0:8081"\ntoken = "{SECRET}"\n',
        '[marker]\nclosed = ["/a/*/b/*"]\n',
    ],
)
def test_usual_settings_are_not_warned_about(check, text):
    """A warning that everybody gets is read by nobody."""
    assert check(text) == (0, "")


@pytest.mark.parametrize("name", ["ledger", "lists"])
def test_a_store_in_a_file_of_another_program_is_a_fault(check, tmp_path, name):
    """Our own: `ledger.path = "/etc/passwd"` passed the check, and failed at the start."""
    foreign = tmp_path / "passwd"
    foreign.write_text("root:x:0:0\n")
    status, said = check(f'[{name}]\npath = "{foreign}"\n')
    assert status == 2
    assert f"{name}.path: " in said
    assert "a file of something else" in said
    assert foreign.read_text() == "root:x:0:0\n"
    assert check(f'[{name}]\npath = "{tmp_path}/new.sqlite"\n') == (0, "")
    status, said = check(f'[{name}]\npath = "{tmp_path}"\n')
    assert (status, "is a directory" in said) == (2, True)


def test_a_model_that_is_a_file_of_another_program_is_a_fault(check):
    """Our own: `watch.model = "/etc/passwd"`."""
    status, said = check('[watch]\nmodel = "/etc/passwd"\n')
    assert status == 2
    assert "/etc/passwd" in said
    assert "root:" not in said


def test_a_settings_file_with_secrets_that_everybody_can_read_is_warned_about(check):
    """Our own: tokens in a file of mode 644 are known to every user of the machine."""
    text = f"[admin]\ntoken = '{SECRET}'\n[[serve.clients]]\nname = 'a'\ntoken = '{SECRET}2'\n"
    status, said = check(text, mode=0o644)
    assert status == 0
    assert "chmod o-r" in said
    assert "admin.token" in said
    assert "serve.clients.0.token" in said
    assert SECRET not in said
    assert check(text, mode=0o640) == (0, "")


@pytest.mark.parametrize(
    "text",
    [
        f"[admin]\ntoken = ['{SECRET}']\n",
        f"[admin]\ntoken = '{SECRET} x'\n",
        f"[state]\npassword = ['{SECRET}']\n",
        f"[state]\nurl = 'http://:{SECRET}@127.0.0.1/'\n",
        f"[ledger]\nurl = 'mysql://hedgerow:{SECRET}@127.0.0.1/x'\n",
        f"[lists]\nurl = {{ a = '{SECRET}' }}\n",
        f"[challenge.external]\nsecret = ['{SECRET}']\n",
        f"[[serve.clients]]\nname = 'x'\ntoken = ['{SECRET}']\n",
        f"[proxy]\nupstream = 'http://admin:{SECRET}@127.0.0.1:8000'\n",
        f"[proxy]\nupstream = 'http://admin:{SECRET}@127.0.0.1:8000/x'\n",
    ],
)
def test_a_fault_in_a_secret_does_not_repeat_it(check, text):
    """Our own: what is wrong with a setting goes to logs and tickets, where its value must not be."""
    status, said = check(text)
    assert status == 2
    assert SECRET not in said


def test_a_secret_of_the_wrong_type_in_a_variable_is_not_repeated(monkeypatch):
    """The same for `HEDGEROW__ADMIN__TOKEN=1234567890123456`, which is a number in TOML."""
    from hedgerow.settings import read_settings

    with pytest.raises(SettingsError) as error:
        read_settings("", environment={"HEDGEROW__ADMIN__TOKEN": "98765432109876543210"})
    assert "98765432109876543210" not in str(error.value)
    monkeypatch.undo()


def test_an_invalid_address_of_redis_does_not_show_its_password():
    """Our own: the address was part of the message."""
    with pytest.raises(ValueError, match="is not an address") as error:
        parse_redis_address(f"mysql://:{SECRET}@127.0.0.1/")
    assert SECRET not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["protect", "serve"])
def test_a_start_with_dangerous_settings_is_refused_where_that_is_wanted(tmp_path, command):
    """Our own: an open admin listener drew no warning at the start; with `--strict-start` there is none."""
    (tmp_path / "hedgerow.toml").write_text(
        f"directory = '{tmp_path}'\n[admin]\nlisten = '0.0.0.0:0'\n[identity]\ntrusted_proxies = ['127.0.0.1/32']\n"
    )
    rest = ["http://127.0.0.1:9"] if command == "protect" else []
    listen = ["--listen", f"127.0.0.1:{free_port()}"]
    strict = [HEDGEROW, command, *rest, *listen, "--strict-start"]
    refused = subprocess.run(strict, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 2
    assert "admin.listen" in refused.stderr
    running = Running([HEDGEROW, command, *rest, *listen], tmp_path / "log", cwd=tmp_path)
    try:
        wait_for("the start", lambda: "dashboard, health" in running.said())
        assert "WARNING admin.listen: 0.0.0.0:0 can be reached from other machines" in running.said()
    finally:
        assert running.stop() == 0


@pytest.mark.slow
def test_no_secret_is_in_the_log_or_the_process_list(tmp_path):
    """Our own: tokens come from files or variables, never from the command line, and are not logged at the start."""
    (tmp_path / "hedgerow.toml").write_text(
        f"directory = '{tmp_path}'\n[admin]\nlisten = '127.0.0.1:0'\ntoken = '{SECRET}'\n"
    )
    command = [HEDGEROW, "protect", "http://127.0.0.1:9", "--listen", f"127.0.0.1:{free_port()}"]
    running = Running(command, tmp_path / "log", cwd=tmp_path)
    try:
        wait_for("the start", lambda: "dashboard, health" in running.said())
        assert SECRET not in Path(f"/proc/{running.pid}/cmdline").read_text()
    finally:
        running.stop()
    assert SECRET not in running.said()


def test_a_secret_is_not_shown_by_dangers(caplog):
    """The sentences about dangers are logged at each start."""
    caplog.set_level(logging.DEBUG)
    own = settings(f"[admin]\nlisten = '0.0.0.0:1'\ntoken = '{SECRET}'\n[policy]\nblock_for = 1e300\n")
    assert SECRET not in str(list(dangers(own)))
