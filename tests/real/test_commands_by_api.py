"""
Commands beside real services: what they say is the same whether they ask the service or use its files.

One of two services has a token, so that commands ask it, and the other one only users with a password.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from hedgerow.cli.main import main
from hedgerow.core.decision import Campaign, ScoreUpdate
from hedgerow.settings import load_settings
from hedgerow.settings.sites import DEFAULT
from hedgerow.state.sqlite.journal import SqliteJournal, connect, order_changes
from hedgerow.web.audit import AuditLog
from hedgerow.web.paths import state_path
from hedgerow.web.sites import settings_of_site
from web.dashboard.desk import HASH

from .databases import PostgresServer, RedisServer
from .servers import HEDGEROW, Running, clean_environment, free_port, wait_for

pytestmark = pytest.mark.slow

Run = Callable[..., tuple[int, str, str]]

TOKEN = "a-long-secret-of-the-test-0123456789"
LOGINS = {
    "token": f"token = '{TOKEN}'\n",
    "password": f"[[admin.users]]\nname = 'alice'\npassword = '{HASH}'\n",
}
ME = "127.0.0.1"
PATIENT = "[density]\nenabled = false\n[containment]\nenabled = false\n[watch]\nenabled = false\n"
"""The services are asked again and again until they answer as they should."""
LASTING = PATIENT + "[policy]\nhalf_life = 1e9\n"
"""Scores do not fade while they are compared."""
SHOP = "[[site]]\nname = 'shop'\nhosts = ['shop.example']\nupstream = 'http://127.0.0.1:1'\n"
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?Z?)?")
_NUMBER = re.compile(r"\b\d{10}\.\d+")
_REFERENCE = re.compile(r"[0-9A-F]{4}-[0-9A-F]{4}")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs a command as an administrator does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUDO_USER", "ann")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hedgerow", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return end.value.code, said.out, said.err

    return run


class Service:
    """A real service, and commands for it."""

    def __init__(self, run: Run, folder: Path, login: str, text: str, options: tuple[str, ...], site: str) -> None:
        self.folder = folder
        self.site = site
        folder.mkdir()
        self.port, admin = free_port(), free_port()
        self._run = run
        config = folder / "settings.toml"
        config.write_text(f"directory = '{folder}'\n{text}\n[admin]\nlisten = '127.0.0.1:{admin}'\n{LOGINS[login]}")
        self.settings = settings_of_site(load_settings(config), site)
        if "postgresql" in text:
            assert run("migrate", "--config", str(config))[0] == 0
        command = [str(HEDGEROW), "protect", "http://127.0.0.1:1", "--listen", f"127.0.0.1:{self.port}"]
        self.running = Running([*command, "--config", str(config), *options], folder / "log", cwd=folder)
        wait_for("the service", lambda: self.status() > 0 or not self.running.alive)

    def ask(self) -> tuple[int, str]:
        host = f"{self.site}.example" if self.site else "localhost"
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/", headers={"host": host})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def status(self) -> int:
        return self.ask()[0]

    def command(self, *arguments: str) -> tuple[int, str, str]:
        site = ("--site", self.site) if self.site else ()
        status, out, err = self._run(*arguments, "--directory", str(self.folder), *site)
        assert "does not respond" not in err
        return status, out, err

    def said(self, *arguments: str) -> tuple[int, str, str]:
        """What a command says, without what differs between two services."""
        status, *texts = self.command(*arguments)
        for pattern, name in ((_TIME, "TIME"), (_NUMBER, "1.0"), (_REFERENCE, "REFERENCE")):
            texts = [pattern.sub(name, text) for text in texts]
        if "pending" in texts[0]:
            # One service was asked more often than the other until it answered as it should.
            texts[0] = re.sub(r' *\d+\n|"pending": \d+', "N", texts[0])
        out, err = (text.replace(str(self.folder), "FOLDER") for text in texts)
        return status, out, re.sub(r"process \d+", "process N", err)

    def audit(self) -> list[tuple[str, str, str]]:
        entries = AuditLog(self.settings).read()[0]
        return [(one.who, one.change, one.subject) for one in reversed(entries)]


@contextmanager
def two_services(
    run: Run, folder: Path, text: tuple[str, str], *options: str, site: str = ""
) -> Iterator[tuple[Service, Service]]:
    found: list[Service] = []
    try:
        for login, own in zip(LOGINS, text, strict=True):
            found.append(Service(run, folder / login, login, own, options, site))
        yield found[0], found[1]
    finally:
        for one in found:
            one.running.stop()


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Iterator[tuple[tuple[str, str], tuple[str, ...], str]]:
    """Settings of both services, their options, and the site."""
    name = request.param
    with ExitStack() as stack:
        if name == "Redis and PostgreSQL":
            redis, postgres = (
                stack.enter_context(closing(RedisServer())),
                stack.enter_context(closing(PostgresServer())),
            )
            texts = [
                f"[state]\nurl = '{redis.url}'\nprefix = '{login}:'\n[lists]\nurl = '{postgres.new_database()}'\n"
                for login in LOGINS
            ]
            yield (texts[0] + PATIENT, texts[1] + PATIENT), (), ""
        else:
            text = PATIENT + (SHOP if name == "one of several sites" else "")
            options = {"workers": ("--workers", "2"), "observing": ("--observe",)}.get(name, ())
            yield (text, text), options, "shop" if "shop" in text else DEFAULT


CASES = ["one process", "workers", "observing", "one of several sites", "Redis and PostgreSQL"]


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_a_command_says_the_same_by_the_api_and_by_files(run, tmp_path, case):
    text, options, site = case
    observes = "--observe" in options
    (tmp_path / "feed.txt").write_text("198.51.100.0/24 # scraper\n203.0.113.9\n")
    with two_services(run, tmp_path, text, *options, site=site) as (by_api, by_files):
        both = (by_api, by_files)

        def same(*arguments: str) -> str:
            one, other = (service.said(*arguments) for service in both)
            assert one == other, arguments
            return one[1]

        def everywhere(status: int) -> None:
            """Each process answers with this status."""
            wanted = 502 if observes else status
            for service in both:
                wait_for(f"status {wanted}", lambda service=service: {service.status() for _ in range(8)} == {wanted})

        everywhere(502)
        assert "no campaigns" in same("campaigns", "show")
        same("lists", "add", "black", ME, "198.51.100.7", "--reason", "scraper", "--for", "7d")
        everywhere(403)
        same("lists", "add", "black", ME)
        same("lists", "change", "black", ME, "--reason", "known", "--author", "bob", "--for-good")
        same("lists", "import", str(tmp_path / "feed.txt"), "--list", "white", "--author", "feed")
        same("lists", "import", str(tmp_path / "feed.txt"), "--replace", "--author", "feed")
        for arguments in (
            ("--json",), (), (ME,), ("--list", "white"), ("--author", "bob"), ("--reason", "scrap"),
            ("--of", "network"), ("--limit", "1"), ("--ended",), ("198.51.100.7",),
        ):  # fmt: skip
            same("lists", "show", *arguments)
        for target in ("plain", "csv", "nginx-geo"):
            same("lists", "export", target)
        same("lists", "subscriptions")
        same("lists", "review")
        for _ in range(2):
            same("lists", "remove", "black", ME)
        everywhere(502)
        same("visitors", "block", ME, "--for", "2h", "--reason", "Rude.")
        everywhere(403)
        pages = [service.ask()[1] for service in both]
        for arguments in ((), (ME,), ("192.0.2.99",), ("--json",), (ME, "--json")):
            shown = same("visitors", "show", *arguments)
        assert "Rude." in shown
        same("lists", "show", "--blocks", "--json")
        references = [_REFERENCE.search(page) for page in pages]
        if not observes:
            assert all(references)
            for what in ("explain", "visitors"):
                said = []
                for service, found in zip(both, references, strict=True):
                    assert found is not None
                    rows = ("explain", found[0]) if what == "explain" else ("visitors", "show", found[0])
                    wait_for("the ledger", lambda service=service, rows=rows: service.command(*rows)[0] == 0)
                    said.append(service.said(*rows))
                assert said[0] == said[1]
            same("explain", ME)
        same("explain", "FFFF-FFFF")
        same("explain", "192.0.2.99")
        for _ in range(2):
            same("visitors", "forgive", ME)
        everywhere(502)
        for change in (("on", "--for", "5m"), ("status",), ("status", "--json"), ("off",), ("off",), ("status",)):
            same("attack", *change)
        same("limits", "--json")
        asked, alone = (service.audit() for service in both)
        assert {who for who, *_ in asked} == {"ann, token (operator)"}
        assert {who for who, *_ in alone} == {"ann"}
        assert [subject for *_, subject in asked] == [subject for *_, subject in alone]


def shown_by(service: Service) -> int:
    status, out, _ = service.command("visitors", "show", "--json")
    return len(json.loads(out)) if status == 0 and out.startswith("[") else 0


def test_scores_and_campaigns_are_the_same_by_the_api_and_by_files(run, tmp_path):
    """What the detectors and the watch have found, also what is no visitor: prices of addresses, and gateways."""
    with two_services(run, tmp_path, (LASTING, LASTING)) as both:
        now = time.time()
        for service in both:
            path = state_path(service.settings)
            with closing(SqliteJournal(path)) as journal:
                for number in range(3):
                    members = tuple(f"192.0.{number}.{n}" for n in range(30))
                    journal.note_campaign(
                        f"C{number}", Campaign(f"C{number}", "sharing", now, now + number, members, "Why.")
                    )
            with closing(connect(path)) as connection:
                changes = [
                    ScoreUpdate(f"192.0.2.{n}", now, 1, 3600.0, weight=n / 10, codes=("trap",), identity="suspect")
                    for n in range(20)
                ]
                order_changes(connection, [*changes, ScoreUpdate("gateway:192.0.2.1", now, 1, 43_200.0, weight=9.0)])
            wait_for("the scores", lambda service=service: shown_by(service) >= 20)
        for arguments in (
            ("visitors", "show"), ("visitors", "show", "192.0.2.1"), ("visitors", "show", "192.0.2.7", "--json"),
            ("visitors", "show", "--json"), ("limits", "--json"), ("campaigns", "show"),
            ("campaigns", "show", "c1", "--json"), ("campaigns", "show", "none"),
        ):  # fmt: skip
            one, other = (service.said(*arguments) for service in both)
            assert one == other, arguments
        assert "9 people" in both[0].command("visitors", "show", "192.0.2.1")[1]


def test_a_command_in_a_shell_asks_the_service(tmp_path):
    """As typed, with nothing but the run file to tell where the service is."""
    service = Service(lambda *_: (0, "", ""), tmp_path / "state", "token", "", (), "")
    try:

        def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [str(HEDGEROW), *arguments], cwd=tmp_path, env=clean_environment(SUDO_USER="ann"),
                capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip

        done = shell("visitors", "block", ME, "--for", "2h")
        assert done.returncode == 0, done.stderr
        assert done.stderr == f"using {service.folder}, where Hedgerow is running (process {service.running.pid})\n"
        # It is in force when the command ends.
        assert service.status() == 403
        assert shell("visitors", "forgive", ME).stdout == f"{ME} is forgiven\n"
        assert service.status() == 502
        assert service.audit() == [
            ("ann, token (operator)", "visitor.ban", ME), ("ann, token (operator)", "visitor.forgive", ME),
        ]  # fmt: skip
    finally:
        service.running.stop()
