"""`hedgerow lists`: what is typed, what is said, and with which status."""

from __future__ import annotations

import io
import json
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from hedgerow.cli.main import main
from hedgerow.core.attack import ATTACK_KEY, attack_block
from hedgerow.core.decision import Block, Evidence
from hedgerow.state.sqlite.journal import connect, order

from .said import without_place


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs a command in an empty folder; gives exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path / "state"))
    monkeypatch.setenv("SUDO_USER", "ann")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hedgerow", "lists", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, without_place(said.err)

    return run


def entries(run, *arguments: str) -> list[dict]:
    status, out, err = run("show", "--json", *arguments)
    assert (status, err) == (0, "")
    return json.loads(out)


def one_line(text: str) -> str:
    assert text.count("\n") == 1, text
    return text.rstrip("\n")


def test_add_show_change_remove(run):
    assert run("show") == (0, "No entries.\n", "")
    status, out, _ = run("add", "black", "192.0.2.0/24", "198.51.100.7", "--reason", "scraper \x1b[2J", "--for", "7d")
    assert status == 0
    assert "192.0.2.0/24 is on the black list until 20" in out
    first, second = entries(run)
    assert (first["list"], first["subject"], first["author"]) == ("black", "192.0.2.0/24", "ann")
    assert first["reason"] == "scraper \ufffd[2J"
    assert second["subject"] == "198.51.100.7"
    assert first["until"] > first["since"]
    assert run("change", "black", "192.0.2.0/24", "--reason", "new", "--for-good")[0] == 0
    first, _ = entries(run)
    assert (first["reason"], first["until"]) == ("new", None)
    assert run("change", "black", "192.0.2.0/24", "--until", "2999-01-01", "--author", "bob")[0] == 0
    first, _ = entries(run)
    assert (first["reason"], first["author"], first["until"]) == ("new", "bob", "2999-01-01T00:00:00Z")
    status, out, _ = run("show")
    assert "2999-01-01 00:00:00" in out
    assert "bob" in out
    assert run("remove", "black", "192.0.2.0/24") == (0, "192.0.2.0/24 is off the black list\n", "")
    assert [e["subject"] for e in entries(run)] == ["198.51.100.7"]


def test_an_operator_is_listed_only_where_a_file_of_operators_is_set(run, monkeypatch):
    status, out, err = run("add", "black", "192.0.2.1", "as64496")
    assert (status, out) == (1, "")
    assert "AS64496 would have no effect: set asn_file in [lists]" in one_line(err)
    assert entries(run) == []
    Path("list.txt").write_text("192.0.2.1\nAS64496\n")
    status, _, err = run("import", "list.txt")
    assert status == 0
    assert "have no effect: set asn_file" in one_line(err)
    monkeypatch.setenv("HEDGEROW__LISTS__ASN_FILE", "operators.mmdb")
    assert run("add", "black", "as64497")[0] == 0
    assert run("import", "list.txt")[2] == ""


def test_lists_that_are_switched_off_are_not_changed(run, monkeypatch):
    monkeypatch.setenv("HEDGEROW__LISTS__ENABLED", "false")
    status, out, err = run("add", "black", "192.0.2.1")
    assert (status, out) == (1, "")
    assert "lists have no effect: set enabled = true" in one_line(err)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("add", "grey", "192.0.2.1"), 2), (("add", "black"), 2), (("add", "black", "example.org"), 2),
        (("add", "black", "192.0.2.1/24"), 2), (("add", "black", "192.0.2.1", "--for", "soon"), 2),
        (("add", "black", "192.0.2.1", "--for", "1d", "--until", "2999-01-01"), 2),
        (("add", "black", "192.0.2.1", "--until", "2001-01-01"), 2), (("add", "black", "192.0.2.1", "--for", "-5s"), 2),
        (("change", "black", "192.0.2.1"), 2), (("change", "black", "192.0.2.1", "--reason", "x"), 1),
        (("change", "black", "192.0.2.1", "--for-good", "--for", "1d"), 2), (("remove", "black", "192.0.2.1"), 1),
        (("export", "word"), 2), (("import", "missing.txt"), 1), (("import",), 2), (("show", "--of", "name"), 2),
        (("show", "x y"), 2), (("show", "--blocks"), 1), (("import", "-", "--format", "xml"), 2),
        (("import", "-", "--replace", "--author", ""), 2), (("export", "plain", "-o", "no/such/folder"), 1),
    ],
)  # fmt: skip
def test_wrong_use_is_one_line_and_a_status(run, arguments, status):
    found, out, err = run(*arguments)
    assert (found, out) == (status, "")
    one_line(err)


def test_adding_a_subject_twice_is_refused(run):
    assert run("add", "black", "192.0.2.1")[0] == 0
    status, _, err = run("add", "black", "192.0.2.1/32")
    assert status == 1
    assert "is already on the black list; use hedgerow lists change black 192.0.2.1" in one_line(err)
    assert run("add", "white", "192.0.2.1")[0] == 0


def test_entries_for_an_address_are_shown_in_order_of_precedence(run):
    for name, subject in (("black", "192.0.0.0/8"), ("white", "192.0.2.0/24"), ("black", "192.0.2.0/24")):
        run("add", name, subject)
    run("add", "black", "198.51.100.1")
    found = entries(run, "192.0.2.7")
    assert [(e["list"], e["subject"]) for e in found] == [
        ("white", "192.0.2.0/24"), ("black", "192.0.2.0/24"), ("black", "192.0.0.0/8"),
    ]  # fmt: skip
    assert entries(run, "203.0.113.1") == []
    assert [e["subject"] for e in entries(run, "--list", "white")] == ["192.0.2.0/24"]
    assert [e["subject"] for e in entries(run, "--of", "address")] == ["198.51.100.1"]
    status, out, err = run("show", "--limit", "2")
    assert status == 0
    assert out.count("192.0") == 2
    assert "--limit" in one_line(err)


def test_import_is_all_or_nothing(run):
    Path("list.txt").write_text("192.0.2.1\n192.0.2.2 # spam\nexample.org\n")
    status, out, err = run("import", "list.txt")
    assert (status, out) == (1, "")
    assert one_line(err).startswith("hedgerow: list.txt:3: 'example.org' is not an address")
    assert entries(run) == []
    status, out, err = run("import", "list.txt", "--skip-bad", "--reason", "feed", "--list", "white", "--for", "1d")
    assert status == 0
    assert one_line(out) == "2 entries imported (plain); 1 bad lines skipped"
    assert one_line(err).startswith("list.txt:3: ")
    assert [(e["list"], e["subject"], e["reason"]) for e in entries(run)] == [
        ("white", "192.0.2.1", "feed"), ("white", "192.0.2.2", "spam"),
    ]  # fmt: skip


def test_import_from_standard_input_and_replace(run, monkeypatch):
    def given(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))

    run("add", "black", "203.0.113.1")
    given("192.0.2.1\n192.0.2.2\n")
    assert run("import", "-", "--author", "feed")[0] == 0
    given(
        "id,source,ip,reason,action,country,as,events_count,expiration,simulated\n1,c,Ip:192.0.2.2,x,ban,,,1,4h,false\n"
    )
    status, out, _ = run("import", "-", "--author", "feed", "--replace")
    assert (status, out) == (0, "1 entries imported (crowdsec)\n")
    assert [e["subject"] for e in entries(run)] == ["192.0.2.2", "203.0.113.1"]


def test_an_exported_list_can_be_imported_again(run, tmp_path, monkeypatch):
    run("add", "black", "192.0.2.0/24", "account:ann", "--reason", "a, b", "--for", "1d")
    run("add", "white", "192.0.2.7")
    before = entries(run)
    for target in ("csv", "json"):
        assert run("export", target, "-o", f"lists.{target}") == (0, "", "")
        monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path / target))
        assert run("import", f"lists.{target}")[0] == 0
        assert entries(run) == before
        monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path / "state"))
    status, out, _ = run("export", "plain")
    assert (status, out) == (0, "192.0.2.0/24 # a, b\naccount:ann # a, b\n")
    assert run("export", "plain", "--list", "white")[1] == "192.0.2.7\n"
    assert "deny 192.0.2.7;" not in run("export", "nginx-deny")[1]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("lists")) == [
        "lists.csv", "lists.json",
    ]  # fmt: skip


def test_blocks_in_force_are_shown(run, monkeypatch):
    """Without a running service they come from its file."""
    state = Path("state")
    state.mkdir()
    now = time.time()
    block = Block("192.0.2.1", "", now, now + 600, "refuse", Evidence("a", "b", 1.0, "Too many \x1b[2J pages."), 2)
    with closing(connect(state / "state.sqlite")) as connection:
        order(connection, "192.0.2.1", block)
        order(connection, ATTACK_KEY, attack_block(now, 60))
    status, out, _ = run("show", "--blocks")
    assert status == 0
    assert "192.0.2.1" in out
    assert "\x1b" not in out
    assert json.loads(run("show", "--blocks", "--json")[1]) == [msgspec.to_builtins(block)]
    monkeypatch.setenv("HEDGEROW__OBSERVE", "true")
    assert run("show", "--blocks")[1] == "Nobody is blocked.\n"


@pytest.mark.parametrize("command", [(), ("show",), ("add",), ("remove",), ("change",), ("import",), ("export",)])
def test_every_lists_command_has_help(run, command):
    status, out, _ = run(*command, "--help")
    assert status == 0
    assert "Usage" in out


def test_a_list_of_20000_lines_is_imported(run):
    lines = (f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}\n" for n in range(20_000))
    Path("many.txt").write_text("".join(lines))
    assert run("import", "many.txt")[1] == "20,000 entries imported (plain)\n"
    assert run("export", "nginx-deny")[1].count("deny") < 20
