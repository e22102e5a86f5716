"""The command line: one line for what is broken, and an exit status that says which."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from attached import attached
from hedgerow import __version__
from hedgerow.cli import main as cli_main
from hedgerow.cli.main import COMMANDS, GROUPS, main
from hedgerow.cli.start import STATUS
from hedgerow.core.decision import Decision, Evidence
from hedgerow.core.ledger import Entry
from hedgerow.core.visit import Visit
from hedgerow.ledger.sqlite import SqliteLedger

from .said import without_place


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a command in an empty folder; return exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    uvicorn = logging.getLogger("uvicorn")
    level = uvicorn.level

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hedgerow", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, without_place(said.err)

    yield run
    uvicorn.setLevel(level)


def one_line(text: str) -> str:
    assert text.count("\n") == 1, text
    assert "Traceback" not in text
    return text.rstrip("\n")


def test_version_is_printed(run):
    assert run("--version") == (0, f"hedgerow {__version__}\n", "")


@pytest.mark.parametrize("command", [(), ("protect",), ("replay",), ("check",), ("explain",)])
def test_every_command_has_help(run, command):
    status, out, err = run(*command, "--help")
    assert (status, err) == (0, "")
    assert "Usage" in out


def test_the_help_shows_commands_in_groups(run):
    """A newcomer finds one of thirty commands."""
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
    _, out, _ = run("--help")
    places = [out.index(f" {title} ") for title in GROUPS]
    assert places == sorted(places)
    assert out.index("│ visitors") > out.index(" See and act ")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_help_text_that_the_list_of_commands_shows(run, name):
    status, out, _ = run(name, "-h")
    assert status == 0
    # The terminal may be of any width.
    assert " ".join(COMMANDS[name][1].split()) in " ".join(out.split())


def test_the_command_line_starts_without_heavy_imports():
    heavy = ("numpy", "dns", "cryptography", "asyncio", "hedgerow.web.app", "hedgerow.web.gate", "hedgerow.settings")
    code = f"import sys, hedgerow.cli.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("protect", "--nonsense"),
        ("explain",),
        ("protect", "--workers", "0"),
        ("protect", "http://x", "y"),
    ],
)
def test_wrong_use_is_status_2_and_one_line(run, arguments):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    one_line(err)


@pytest.mark.parametrize("module", ["hedgerow.cli.main", "hedgerow.cli.report"])
def test_ctrl_c_during_imports_is_status_130_and_one_line(module):
    code = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[3]:
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell of a background job has it ignored
sys.meta_path.insert(0, Interrupting())
from hedgerow.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "report", "/nowhere", module], capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"Interrupted.\n")


@pytest.mark.parametrize(("status", "said"), [(130, "Interrupted.\n"), (STATUS, "")])
def test_ctrl_c_is_reported_once(monkeypatch, capsys, status, said):
    """Typer prints nothing; a command that handles the interrupt prints its own message."""
    monkeypatch.setattr(cli_main, "app", lambda **_: status)
    with pytest.raises(SystemExit) as end:
        cli_main.main()
    assert end.value.code == 130
    assert capsys.readouterr().err == said


# ---- --observe


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ([], False), (["--observe"], True), (["--observe", "http://127.0.0.1:1"], True), (["--observe=links"], "links"),
        (["--observe", "links", "http://127.0.0.1:1"], "links"), (["--observe", "--workers", "1"], True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["protect", "serve"])
def test_observe_may_have_a_value(run, monkeypatch, command, options, mode):
    """The settings with which a server would run."""
    found = []
    monkeypatch.setattr("hedgerow.cli.servers.run_processes", lambda _, read, *__, **___: found.append(read().observe))
    monkeypatch.setenv("HEDGEROW__PROXY__UPSTREAM", "http://127.0.0.1:1")
    monkeypatch.setenv("HEDGEROW__IDENTITY__TRUSTED_PROXIES", '["127.0.0.1/32"]')
    options = [one for one in options if command == "protect" or not one.startswith("http:")]
    assert run(command, "--listen", "127.0.0.1:0", *options)[0] == 0
    assert found == [mode]


def test_another_value_of_observe_is_one_line(run):
    status, _, err = run("protect", "--observe=yes", "http://127.0.0.1:1")
    assert (status, one_line(err)) == (
        2,
        "hedgerow: Invalid value for --observe: write --observe or --observe=links, not 'yes'; see hedgerow --help",
    )


# ---- check


def test_check_lists_every_fault(run):
    Path("hedgerow.toml").write_text("observe = true\n")
    assert run("check") == (0, "hedgerow.toml: no faults\n", "")
    Path("other.toml").write_text("obsrve = true\n\n[density]\nblock_for = 'x'\n")
    status, out, err = run("check", "other.toml")
    assert (status, out) == (2, "")
    assert err.splitlines() == [
        "other.toml:1: obsrve: is not a setting; did you mean observe?",
        'other.toml:4: density.block_for: must be a number, is "x"',
    ]
    status, _, err = run("check", "missing.toml")
    assert status == 2
    assert one_line(err) == "missing.toml: cannot be read: No such file or directory"


def test_check_without_a_file_is_wrong_use(run):
    assert run("check")[0] == 2


def test_check_warns_of_opaque_links_behind_a_front_server(run):
    front = '[identity]\ntrusted_proxies = ["192.0.2.1"]\n'
    rule = '[[marker.rules]]\npath = "/secret/*"\nmode = "opaque"\n'
    for text, warned in {
        front: False,
        front + '[marker]\nmode = "opaque"\n': True,
        front + rule: True,
        '[marker]\nmode = "opaque"\n': False,
    }.items():
        Path("hedgerow.toml").write_text(text)
        status, out, err = run("check")
        assert (status, out) == (0, "hedgerow.toml: no faults\n")
        assert err.startswith("hedgerow.toml: warning: marker: an opaque link hides its path") == warned, text
        assert len(err.splitlines()) == warned


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('model = "pathmarker"', ""),
        ("judge_at = [20, 60]", ""),
        ('model = "pathmaker"', "hedgerow.toml:2: watch.model: no model is called 'pathmaker'; write boosted or"),
        ("long_session = 80", "the model 'boosted' was trained for long sessions of 60 pages, not 80"),
        ("short_session_gap = 5", "trained for short sessions with gaps below 10 s, not 5 s"),
        ("judge_at = [15, 60]", "trained for sessions of 10, 20, 30, 40, 50, 60 pages, not 15"),
        ('judge_at = [10, 50]\nmodel = "pathmarker"', "trained for sessions of 60 pages; it is never asked at that"),
        ("window_max = 50", "the model 'window' was trained for windows of 27 to 40 pages, not 27 to 50"),
        ('window_max = 50\nwindows = "off"', ""),
    ],
)
def test_check_refuses_models_that_do_not_exist_or_fit(run, text, said):
    Path("hedgerow.toml").write_text(f"[watch]\n{text}\n")
    status, _, err = run("check")
    assert status == (2 if said else 0)
    assert said in (one_line(err) if said else err)


def test_check_warns_of_a_model_file_that_is_not_there(run):
    Path("hedgerow.toml").write_text('[watch]\nmodel = "none.json"\n')
    status, out, err = run("check")
    assert (status, out) == (0, "hedgerow.toml: no faults\n")
    assert one_line(err) == "hedgerow.toml: warning: watch.model: there is no file 'none.json' here"


# ---- protect, when it does not start


def test_protect_without_a_site_is_wrong_use(run):
    status, _, err = run("protect")
    assert status == 2
    assert one_line(err) == "name the site to protect: hedgerow protect http://127.0.0.1:8000"


@pytest.mark.parametrize("upstream", ["127.0.0.1:8000", "ftp://x", "http://x/path", "http://x:99999", "http://"])
def test_protect_with_a_bad_upstream_is_wrong_use(run, upstream):
    status, _, err = run("protect", upstream)
    assert status == 2
    assert one_line(err).startswith(f"upstream: {upstream!r} ")


@pytest.mark.parametrize("option", ["--listen", "--admin"])
def test_protect_with_a_bad_listener_is_wrong_use(run, option):
    status, _, err = run("protect", "http://127.0.0.1:8000", option, "nonsense")
    assert status == 2
    assert one_line(err) == f"{option}: 'nonsense' is not HOST:PORT, such as 127.0.0.1:8080"


@pytest.mark.parametrize("option", ["--listen", "--admin"])
def test_protect_with_a_port_in_use_names_the_option(run, option):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        others = ["--listen", "127.0.0.1:0"] if option == "--admin" else []
        status, _, err = run("protect", "http://127.0.0.1:8000", *others, option, where)
    assert status == 1
    assert one_line(err) == f"hedgerow: cannot listen on {where}: Address already in use; choose another with {option}"


def test_protect_at_an_address_of_another_machine_fails(run):
    status, _, err = run("protect", "http://127.0.0.1:8000", "--listen", "no.such.host.invalid:80")
    assert status == 1
    assert one_line(err).startswith("hedgerow: cannot listen on no.such.host.invalid:80: ")


def test_protect_with_bad_settings_lists_the_faults(run):
    Path("hedgerow.toml").write_text("[density]\nblock_for = 0\n[traps]\nevery = 0\n")
    status, _, err = run("protect", "http://127.0.0.1:8000")
    assert status == 2
    assert err.splitlines() == [
        "hedgerow.toml:2: density.block_for: must be more than 0, is 0.0",
        "hedgerow.toml:4: traps.every: must be more than 0, is 0",
    ]


def test_protect_refuses_a_key_that_others_may_read(run, tmp_path):
    Path("hedgerow.toml").write_text(f"directory = '{tmp_path}'\n")
    Path("hedgerow.key").write_text("00" * 64)
    Path("hedgerow.key").chmod(0o644)
    status, _, err = run("protect", "http://127.0.0.1:8000", "--listen", "127.0.0.1:0")
    assert status == 1
    assert "chmod 600" in one_line(err)


# ---- explain


def ledger(folder: Path) -> None:
    (folder / "hedgerow.toml").write_text(f"directory = '{folder}'\n")
    store = SqliteLedger(folder / "ledger.sqlite")
    visit = Visit(
        1_800_000_000.0,
        "192.0.2.1",
        "account:Zo\xeb",
        "192.0.2.1",
        "GET",
        "/\x1b[2Jx",
        account="Zo\xeb",
        host="example.org",
    )
    evidence = Evidence("trap", "trap", 1.0, "Followed a link of the page /\x07 that no person can see.")
    store.append(Entry(visit, Decision("refuse", (evidence,)), 403, "7F3A-91C2"))
    store.close()


def test_explain_prints_the_visit_and_its_evidence(run, tmp_path):
    ledger(tmp_path)
    status, out, err = run("explain", " 7f3a-91c2")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "2027-01-15 08:00:00 UTC  refuse, status 403",
        "visitor     account:Zo\xeb (192.0.2.1)",
        "request     GET example.org/\\x1b[2Jx",
        "user agent  (none)",
        "evidence    Followed a link of the page /\\x07 that no person can see. [trap, weight 1]",
    ]


@pytest.mark.parametrize("reference", ["0000-0000", "", "' OR 1=1 --", "\x00"])
def test_explain_an_unknown_reference_is_one_line(run, tmp_path, reference):
    ledger(tmp_path)
    status, out, err = run("explain", reference)
    assert (status, out) == (1, "")
    assert "is not in the ledger" in one_line(err)


def test_explain_without_a_ledger_is_one_line(run, tmp_path, monkeypatch):
    # Other tests may have run something where the state is by default.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    status, _, err = run("explain", "7F3A-91C2")
    assert status == 1
    assert "no Hedgerow has run with the directory" in one_line(err)
    Path("hedgerow.toml").write_text(f"directory = '{tmp_path}'\n")
    Path("ledger.sqlite").write_bytes(b"This is no database." * 100)
    status, _, err = run("explain", "7F3A-91C2")
    assert status == 1
    assert "cannot read the ledger" in one_line(err)


# ---- As a process


def environment(folder: Path) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith("HEDGEROW__")}, "XDG_STATE_HOME": str(folder)}


def test_hedgerow_runs_as_a_module(tmp_path):
    found = subprocess.run(
        [sys.executable, "-m", "hedgerow", "protect", "nonsense"],
        capture_output=True, text=True, cwd=tmp_path, env=environment(tmp_path), check=False,
    )  # fmt: skip
    assert found.returncode == 2
    assert one_line(found.stderr) == "upstream: 'nonsense' is not an address such as http://127.0.0.1:8000"


class Protect:
    """`hedgerow protect` in a process of its own, in front of nothing."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / "protect.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                attached([sys.executable, "-m", "hedgerow", "protect", "http://127.0.0.1:1", "--listen", "127.0.0.1:0",
                          "--admin", "127.0.0.1:0", *arguments]),
                cwd=folder, env=environment(folder), stdout=out, stderr=out, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self.wait_for("dashboard, health and metrics at")
        self.site, self.admin = re.findall(r"http://127\.0\.0\.1:\d{2,}", self.log.read_text())

    def wait_for(self, text: str, times: int = 1) -> None:
        deadline = time.monotonic() + 90
        while self.log.read_text().count(text) < times:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def overview(self) -> str:
        with urllib.request.urlopen(self.admin, timeout=120) as answer:
            return answer.read().decode()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


def test_sighup_keeps_the_old_settings_if_the_new_are_wrong(tmp_path):
    config = tmp_path / "hedgerow.toml"
    config.write_text("observe = false\n")
    protect = Protect(tmp_path)
    try:
        assert "Observing only." not in protect.overview()
        config.write_text("observe = true\n[density]\nblock_for = 'x'\n[traps]\nevery = 0\n")
        protect.process.send_signal(signal.SIGHUP)
        protect.wait_for('not reloaded: hedgerow.toml:3: density.block_for: must be a number, is "x"')
        protect.wait_for("not reloaded: hedgerow.toml:5: traps.every: must be more than 0, is 0")
        assert "Observing only." not in protect.overview()
        config.write_text("observe = true\n[ledger]\nqueue = 5\n")
        protect.process.send_signal(signal.SIGHUP)
        protect.wait_for("changes in ledger take effect at the next start")
        assert "Observing only." in protect.overview()
        config.unlink()
        protect.process.send_signal(signal.SIGHUP)
        protect.wait_for("not reloaded: hedgerow.toml: cannot be read")
        assert "Observing only." in protect.overview()
    finally:
        status = protect.stop()
    assert status == 0
    assert "Traceback" not in protect.log.read_text()


def test_sighup_without_a_settings_file_does_not_end_the_process(tmp_path):
    protect = Protect(tmp_path)
    try:
        protect.process.send_signal(signal.SIGHUP)
        protect.wait_for("reloaded the settings")
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(protect.site, timeout=120)
        assert error.value.code == 502
        error.value.close()
    finally:
        status = protect.stop()
    assert status == 0
