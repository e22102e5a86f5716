"""
The watch finds the same live and when the ledger, or an access log, is replayed: sessions, windows, campaigns, changes.

Random visitors wander a site through the middleware; some use links that were minted for others. The watch looks on
live; then the ledger is replayed with a fresh gate and a fresh watch.
"""

from __future__ import annotations

import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from driving import KEY, OFF, Application, Client, settings
from hedgerow.core.ledger import NoLedger
from hedgerow.core.visit import Visit
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.logs.reader import LogReader
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.report.replay import likely_host, replay
from hedgerow.web.gate import build_gate
from hedgerow.web.watch import build_watch
from property_tests import examples

QUIET = "".join(f"[{table}]\nenabled = false\n" for table in ("density", "traps", "headers", "containment"))
PEERS = [f"198.51.100.{n}" for n in range(5)]
LINKS = re.compile(rb'href="([^"]+)"')
ANSWERS = st.sampled_from(["record", "challenge"])


def page(scope):
    """Each page links to five others."""
    chance = Random(scope["path"])
    links = "".join(f'<a href="/p/{chance.randrange(300)}">x</a>' for _ in range(5))
    return {"chunks": (f"<!DOCTYPE html><html><body>{links}</body></html>".encode(),)}


def wander(client: Client, seed: int, visits: int, shared: float, pause: float) -> list[str]:
    """Visitors follow their own links and, as often as *shared* says, one another's. The lines of a log of it."""
    chance = Random(seed)
    links: dict[str, list[str]] = {peer: [] for peer in PEERS}
    last: dict[str, str] = {}
    lines = []
    for _ in range(visits):
        client.clock.now += max(1, round(chance.expovariate(1 / pause)))
        peer = chance.choice(PEERS)
        issuer = chance.choice(PEERS) if chance.random() < shared else peer
        asked = chance.choice(links[issuer]) if links[issuer] and chance.random() < 0.9 else "/"
        referrer = f"http://example.org{last[peer]}" if peer in last else ""
        answer = client.get(asked, peer=peer, headers={"referer": referrer} if referrer else {})
        found = [link.decode() for link in LINKS.findall(answer.body)]
        links[peer] = found if answer.status == 200 and found else links[peer]
        last[peer] = asked
        when = datetime.fromtimestamp(client.clock.now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
        lines.append(f'{peer} - - [{when}] "GET {asked} HTTP/1.1" {answer.status} 5 "{referrer or "-"}" "-"\n')
    return lines


class Told:
    """Takes down what a watch says, and passes it on."""

    def __init__(self, watch) -> None:
        self.changes, self._amend = [], watch.update_score
        watch.update_score = self

    def __call__(self, change) -> None:
        self.changes.append(change)
        self._amend(change)


def live_client(text: str, ledger=None) -> tuple[Client, Told]:
    """A client whose watch looks at each visit at once, so that what it finds counts from the very next one."""
    client = Client(Application(react=page), text, ledger=ledger)
    watch = client.site.watch.watch
    client.site.app.gate.on_decision = watch.see
    return client, Told(watch)


def results(watch) -> tuple:
    return dict(watch.found), list(watch.campaigns()), [panel.record for panel in watch.panels], watch.pending


@given(
    st.integers(0, 10_000),
    st.integers(40, 300),
    st.sampled_from([0.0, 0.3, 0.9]),
    st.sampled_from([1.0, 30.0]),
    ANSWERS,
)
@examples(12, deadline=None)
def test_a_replayed_ledger_shows_what_the_watch_found_live(seed, visits, shared, pause, response):
    text = f'{QUIET}[watch]\npaths = "{response}"\nwindows = "{response}"\n[campaigns]\nresponse = "{response}"\n'
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        ledger = SqliteLedger(path)
        client, told = live_client(text, ledger)
        wander(client, seed, visits, shared, pause)
        ledger.close()
        gate = build_gate(settings(text), tokens=TokenCodecs([Key(1, KEY, 0.0)]), ledger=NoLedger())
        watch = build_watch(settings(text), gate.engine.policy, gate.state.update_score)
        replayed = replay(gate, LogReader([str(path)]), watch=watch)
    assert results(watch) == results(client.site.watch.watch)
    assert replayed.judged == dict(client.site.watch.watch.found)
    assert replayed.campaigns == list(client.site.watch.watch.campaigns())
    codes: dict[str, dict[str, int]] = {}
    for change in told.changes:
        # A judgement below the threshold only adds to the score, and is no finding.
        for code in (code for code in change.codes if not code.endswith("-doubtful")):
            by_code = codes.setdefault(change.key, {})
            by_code[code] = by_code.get(code, 0) + 1
    assert {name: finding.codes for name, finding in replayed.found.items()} == codes


@given(st.integers(0, 10_000), st.sampled_from([1.0, 30.0]))
@examples(12, deadline=None)
def test_a_replayed_access_log_shows_what_the_watch_found_live(seed, pause):
    """Without markers, too: what a common web server writes is enough, the referrer stands for the parent."""
    text = QUIET + OFF
    client, _ = live_client(text)
    lines = wander(client, seed, 100, 0.0, pause)
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
        log.writelines(lines)
        log.flush()
        gate = build_gate(settings(text), tokens=TokenCodecs([Key(1, KEY, 0.0)]), ledger=NoLedger(), entries=False)
        watch = build_watch(settings(text), gate.engine.policy, gate.state.update_score)
        replay(gate, LogReader([log.name]), host="example.org", watch=watch)
    assert results(watch) == results(client.site.watch.watch)


def test_the_generator_of_these_tests_does_bring_forth_findings():
    """Else the tests above would compare nothing with nothing."""
    client, _ = live_client(QUIET)
    wander(client, 1, 160, 0.9, 1.0)
    assert client.site.watch.watch.campaigns()
    client, told = live_client(QUIET)
    wander(client, 1, 300, 0.0, 1.0)
    for what in ("path-", "window-"):
        assert any(code.startswith(what) for change in told.changes for code in change.codes)


def asset(referrer: str) -> Visit:
    return Visit(0.0, "a", "a", "a", "GET", "/x.png", kind="asset", referrer=referrer)


def test_the_host_is_told_by_assets():
    own = [asset("http://Example.org/a")] * 3
    assert likely_host([*own, asset("http://other.example/")]) == "example.org"
    assert likely_host([asset("http://a.example/"), asset("http://b.example/")]) == ""
    assert likely_host([asset(""), asset("-")]) == ""
