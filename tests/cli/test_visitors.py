"""`hedgerow visitors`: shown, forgiven and blocked while a Hedgerow runs, and while none does."""

from __future__ import annotations

import json
import sys
import time

import msgspec
import pytest

from driving import Application
from hedgerow.cli.main import main
from hedgerow.core.decision import PASS, Block, Decision, Evidence, ScoreUpdate
from hedgerow.core.ledger import Entry
from hedgerow.core.state import StateQuery, prefix_key
from hedgerow.core.visit import Visit
from hedgerow.settings import load_settings
from hedgerow.web.app import Site
from hedgerow.web.asgi import Hedgerow

from .said import without_place

ME = "192.0.2.1"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs a command; gives exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEDGEROW__DIRECTORY", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hedgerow", "visitors", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code, said.out, without_place(said.err)

    return run


@pytest.fixture
def site(run):  # noqa: ARG001 - its directory
    one = Site(load_settings(None))
    yield one
    one.close()


def block_of(site: Site, key: str = ME) -> Block | None:
    return site.stores.state.record_visit(StateQuery(time.time(), "page", key, ME, "", count=False)).block


def eventually(condition) -> bool:
    deadline = time.monotonic() + 60
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(found)


def shown(run) -> list[dict[str, object]]:
    return json.loads(run("show", "--json")[1] or "[]") if "nobody" not in run("show")[1] else []


def test_blocked_and_suspected_visitors_are_shown_with_reasons(run, site):
    now = time.time()
    site.stores.state.commit(
        Block(ME, ME, now, now + 600, "refuse", Evidence("trap", "trap", 1.0, "Fell into a trap."))
    )
    change = ScoreUpdate("account:ann", now, 1, 3600.0, weight=0.7, codes=("minted-for-another",), identity="suspect")
    site.stores.state.update_score(change)
    assert eventually(lambda: len(shown(run)) == 2)
    status, out, _ = run("show")
    assert status == 0
    assert "Fell into a trap." in out
    assert "Suspected for minted-for-another." in out
    first, second = shown(run)
    assert (first["visitor"], first["identity"]) == (ME, "blocked")
    assert (second["visitor"], second["identity"], second["suspicion"]) == (
        "account:ann",
        "suspect",
        pytest.approx(0.7, abs=0.01),
    )
    assert "account:ann" not in run("show", ME)[1]


def test_the_reasons_of_one_visitor_are_given_in_words(run, site):
    change = ScoreUpdate("clearance:ab", time.time(), 1, 3600.0, weight=0.7, codes=("webdriver", "driven-browser"))
    site.stores.state.update_score(change)
    assert eventually(lambda: len(shown(run)) == 1)
    out = run("show", "clearance:ab")[1]
    assert "webdriver: The browser says that a program drives it." in out
    assert "driven-browser: The browser seems to be driven by a program." in out
    assert [reason["times"] for reason in shown(run)[0]["reasons"]] == [1, 1]


def test_what_was_observed_is_shown_as_such_and_forgiven(run, site):
    site.reload(msgspec.structs.replace(site.app.settings, observe=True))
    now = time.time()
    site.stores.state.commit(Block(ME, ME, now, now + 600, "refuse", Evidence("trap", "trap", 1.0, "Why.")))
    change = ScoreUpdate("account:ann", now, 1, 3600.0, weight=0.7, codes=("minted-for-another",), identity="suspect")
    site.stores.state.update_score(change)
    assert eventually(lambda: len(shown(run)) == 2)
    assert [(row["visitor"], row["observed"]) for row in shown(run)] == [(ME, True), ("account:ann", True)]
    said = run("show")[1]
    assert "would have blocked until" in said
    assert "suspect (observed)" in said
    assert run("forgive", ME)[0] == 0
    assert eventually(lambda: block_of(site) is None)
    # An administrator's block is in force as soon as observing ends.
    assert run("block", ME)[0] == 0
    assert eventually(lambda: block_of(site) is not None)
    site.reload(msgspec.structs.replace(site.app.settings, observe=False))
    assert eventually(lambda: block_of(site) is not None)


def test_an_address_is_explained_by_its_last_visit_that_did_not_pass(site, monkeypatch, capsys):
    visit = Visit(time.time(), ME, ME, ME, "GET", "/a")
    refused = Decision("refuse", (Evidence("trap", "trap", 1.0, "Followed a hidden link."),), observed="neutral")
    site.stores.ledger.append(Entry(visit, refused, 200))
    site.stores.ledger.append(Entry(visit, PASS, 200))
    site.close()
    monkeypatch.setattr(sys, "argv", ["hedgerow", "explain", ME])
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr().out
    assert end.value.code == 0
    assert "would have been refused, status 200" in said
    assert "Followed a hidden link." in said
    monkeypatch.setattr(sys, "argv", ["hedgerow", "explain", "192.0.2.99"])
    with pytest.raises(SystemExit):
        main()
    assert "all visits of 192.0.2.99 in the ledger" in capsys.readouterr().err


def test_a_running_gate_forgives(run, site):
    now = time.time()
    for key in (ME, prefix_key(ME)):
        site.stores.state.commit(Block(key, ME, now, now + 600, "refuse", Evidence("trap", "trap", 1.0, "Why.")))
    assert eventually(lambda: len(shown(run)) == 2)
    assert run("forgive", ME) == (0, f"{ME} is forgiven\n", "")
    assert eventually(lambda: block_of(site) is None)
    assert run("forgive", ME)[::2] == (1, f"hedgerow: {ME} is neither suspected nor blocked\n")


def test_a_running_gate_blocks(run, site):
    assert run("block", ME, "--for", "2h", "--reason", "Told so.")[0] == 0
    assert eventually(lambda: block_of(site) is not None)
    found = block_of(site)
    assert found is not None
    assert found.evidence.text == "Told so."
    assert found.until == pytest.approx(time.time() + 7200, abs=30)


def test_commands_apply_at_the_next_start_if_no_gate_runs(run, site):
    site.close()
    assert run("block", "account:eve")[0] == 0
    again = Site(load_settings(None))
    assert block_of(again, "account:eve") is not None
    again.close()
    assert run("forgive", "account:eve")[0] == 0
    again = Site(load_settings(None))
    assert block_of(again, "account:eve") is None
    again.close()


def test_a_reference_names_a_visitor(run, site):
    """From the page that a refused visitor sees to its pardon."""
    import asyncio

    from driving import Client

    client = Client(Application())
    client.site, client.hedgerow = site, Hedgerow(Application(), site=site)
    now = time.time()
    site.stores.state.commit(Block(ME, ME, now, now + 600, "refuse", Evidence("trap", "trap", 1.0, "Why.")))
    answer = asyncio.run(client.ask("/"))
    reference = answer.header("hedgerow-decision").decode().rpartition("ref=")[2]
    assert eventually(lambda: ME in run("show", reference)[1])
    assert run("forgive", reference.lower())[:2] == (0, f"{ME} is forgiven\n")
    assert eventually(lambda: asyncio.run(client.ask("/")).status == 200)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("forgive", "198.51.100.1"), 1, "hedgerow: 198.51.100.1 is neither suspected nor blocked"),
        (("forgive", "0000-0000"), 1, "the reference 0000-0000 is not in the ledger"),
        (("block", ME, "--for", "soon"), 2, "'soon' is not a duration; write 30m, 12h or 7d"),
        (("block", ME, "--for", "0d"), 2, "'0d' is not a duration"),
    ],
)
def test_wrong_use_is_one_line(run, site, arguments, status, said):  # noqa: ARG001
    code, out, error = run(*arguments)
    assert (code, out) == (status, "")
    assert said in error
    assert error.count("\n") == 1


def test_a_state_without_suspects_is_reported(run, site):  # noqa: ARG001
    assert run("show") == (0, "nobody is suspected or blocked\n", "")
    assert run("show", ME) == (0, f"{ME} is neither suspected nor blocked\n", "")


def test_a_state_that_is_not_durable_cannot_be_shown(run, monkeypatch):
    monkeypatch.setenv("HEDGEROW__STATE__DURABLE", "false")
    status, _, error = run("show")
    assert status == 1
    assert "only in the memory of the service; set listen in [admin]" in error


def test_an_unreachable_redis_is_one_line(run, tmp_path):
    (tmp_path / "hedgerow.toml").write_text("[state]\nurl = 'redis://127.0.0.1:1/0'\n")
    status, _, error = run("show")
    assert status == 1
    assert "Redis cannot be reached, see state.url: " in error
    assert error.count("\n") == 1
