"""
One code path on line and off line: what was decided live is decided again when the ledger is replayed.

Random traffic goes through the middleware: several addresses, accounts, pages, images, calls, prefetches, liars, hidden
links of one's own and of others. Then a fresh gate with the same key reads the ledger. Only the words of evidence may
differ, because a fresh gate has forgotten which page a hidden link stood on.
"""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from driving import HTML, KEY, PAGE, Application, Client, settings, traps_in
from hedgerow.core.decision import Decision
from hedgerow.core.gate import run_now
from hedgerow.core.ledger import NoLedger
from hedgerow.ledger.sqlite import SqliteLedger
from hedgerow.logs.reader import LogReader
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.report.replay import replay
from hedgerow.web.gate import build_gate

SETTINGS = """
[identity]
account_cookie = "sid"
strikes = 2
[[identity.bots]]
name = "search"
networks = ["203.0.113.0/24"]
[density]
windows = [
  { count = 3, seconds = 2.0 },
  { count = 5, seconds = 3.0, of = "requests" },
  { count = 8, seconds = 4.0, by = "prefix", of = "everything" },
  { count = 12, seconds = 5.0, by = "network" },
  { count = 2, seconds = 5.0, of = "prefetches" },
]
block_for = 6.0
[traps]
block_for = 9.0
response = "detain"
[detain]
seconds = 0.001
"""
PEERS = ["192.0.2.1", "192.0.2.2", "198.51.100.7", "2001:db8::1", "2001:db8::2", "203.0.113.5"]
CLAIMS = [
    {},
    {"sec-fetch-dest": "document", "sec-fetch-site": "same-origin"},
    {"sec-fetch-dest": "image", "sec-fetch-site": "cross-site"},
    {"sec-fetch-dest": "empty"},
    {"sec-purpose": "prefetch"},
    {"range": "bytes=0-", "accept-language": "en"},
    {"referer": "http://example.org/", "user-agent": "caf\xe9\x00"},
]
TARGETS = ["/", "/list?p=2", "/logo.png", "/api.json", "/missing", "/data", "TRAP", "/%ff\xff"]
VISITS = st.lists(
    st.tuples(
        st.integers(0, 16).map(lambda n: n / 16),
        st.sampled_from(PEERS),
        st.sampled_from(["", "ann", "bob", "eve"]),
        st.sampled_from(["GET", "GET", "GET", "HEAD", "POST"]),
        st.sampled_from(TARGETS),
        st.sampled_from(CLAIMS),
        st.integers(0, 50),
    ),
    min_size=1,
    max_size=50,
)


class Both(list):
    """A ledger that keeps its entries at hand, too."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ledger = SqliteLedger(path)
        self.lost = 0

    def append(self, entry) -> None:
        super().append(entry)
        self.ledger.append(entry)

    def close(self) -> None:
        self.ledger.close()


def react(scope):
    """A site with pages, an image, an API and a page that is missing."""
    path = scope["path"]
    if path == "/a.png":
        return {"headers": [(b"content-type", b"image/png")], "chunks": (b"PNG",)}
    if path == "/data":
        return {"headers": [(b"content-type", b"application/json")], "chunks": (b"{}",)}
    if path == "/missing":
        return {"status": 404}
    return None


def fresh_gate():
    return build_gate(settings(SETTINGS), tokens=TokenCodecs([Key(1, KEY, 0.0)]), ledger=NoLedger())


def but_for_words(decision: Decision) -> Decision:
    return msgspec.structs.replace(
        decision, evidence=tuple(msgspec.structs.replace(e, text="") for e in decision.evidence)
    )


@given(VISITS)
@hypothesis_settings(max_examples=30)
@example([(0.0, "192.0.2.1", "", "GET", target, {}, 0) for target in ("/", "TRAP", "/", "/")])
@example([(0.1, "192.0.2.1", "", "GET", "/", {"range": "bytes=0-", "accept-language": "en"}, 0)] * 12)
@example([(0.1, "192.0.2.1", "", "GET", "/data", {}, 0)] * 12)
def test_a_replayed_ledger_decides_what_was_decided_live(traffic):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        ledger = Both(path)
        client = Client(Application(react=react), SETTINGS, ledger=ledger)
        traps = ["/~" + "A" * 44]
        for step, peer, account, method, target, claims, which in traffic:
            client.clock.now += step
            headers = {**claims, "cookie": f"sid={account}"} if account else claims
            asked = traps[which % len(traps)] if target == "TRAP" else target
            traps += traps_in(client.get(asked, peer=peer, method=method, headers=headers).body)
        ledger.close()
        visits = list(LogReader([str(path)]))
        totals = replay(fresh_gate(), LogReader([str(path)])).totals()
    assert visits == [msgspec.structs.replace(entry.visit, status=entry.status) for entry in ledger]
    gate = fresh_gate()
    for live, visit in zip(ledger, visits, strict=True):
        again = run_now(gate.decide(visit))
        gate.settle(again)
        assert but_for_words(again) == but_for_words(live.decision), live
    actions = [entry.decision.action for entry in ledger]
    assert totals["decisions"] == {
        action: actions.count(action) for action in ("pass", "challenge", "detain", "refuse")
    }


def test_answers_that_overtake_each_other_change_nothing_in_the_order_of_time(tmp_path):
    """A slow answer is written down late. Its visit was decided early all the same."""
    path = tmp_path / "ledger.sqlite"
    ledger = Both(path)

    async def app(scope, _receive, send):
        await asyncio.sleep(float(scope["query_string"]))
        await send({"type": "http.response.start", "status": 200, "headers": [HTML]})
        await send({"type": "http.response.body", "body": PAGE})

    client = Client(app, SETTINGS, ledger=ledger)

    async def all_at_once() -> None:
        tasks = []
        for n in range(8):
            client.clock.now += 0.01
            tasks.append(asyncio.ensure_future(client.ask(f"/{n}?{0.08 - n / 100}")))
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    asyncio.run(all_at_once())
    ledger.close()
    assert [entry.visit.at for entry in ledger] != sorted(entry.visit.at for entry in ledger)
    live = [entry.decision.action for entry in sorted(ledger, key=lambda entry: entry.visit.at)]
    assert live == ["pass"] * 3 + ["challenge"] * 5
    gate = fresh_gate()
    assert [run_now(gate.decide(v)).action for v in sorted(LogReader([str(path)]), key=lambda v: v.at)] == live


LINES = st.lists(
    st.tuples(
        st.integers(1, 5),
        st.sampled_from(PEERS[:4]),
        st.sampled_from(["/", "/a.png", "/b", "TRAP"]),
        st.integers(0, 50),
    ),
    min_size=1,
    max_size=40,
)
COARSE = """
[density]
windows = [{ count = 4, seconds = 10.0 }, { count = 9, seconds = 30.0, by = "network", of = "everything" }]
block_for = 20.0
"""


@given(LINES)
@hypothesis_settings(max_examples=40)
def test_a_replayed_access_log_of_whole_seconds_decides_what_was_decided_live(traffic):
    """What a common web server writes is enough, where nothing was claimed in headers that it does not write."""
    client = Client(Application(react=react), COARSE)
    traps = ["/~" + "A" * 44]
    lines = []
    for step, peer, target, which in traffic:
        client.clock.now += step
        asked = traps[which % len(traps)] if target == "TRAP" else target
        answer = client.get(asked, peer=peer)
        traps += traps_in(answer.body)
        when = datetime.fromtimestamp(client.clock.now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
        lines.append(f'{peer} - - [{when}] "GET {asked} HTTP/1.1" {answer.status} {len(answer.body)} "-" "-"\n')
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
        log.writelines(lines)
        log.flush()
        result = replay(
            build_gate(settings(COARSE), tokens=TokenCodecs([Key(1, KEY, 0.0)]), ledger=NoLedger()),
            LogReader([log.name]),
            host="example.org",
        )
    live: dict[str, list[str]] = {}
    for entry in client.entries:
        live.setdefault(entry.visit.visitor, []).append(entry.decision.action)
    assert {visitor: fate.stopped for visitor, fate in result.fates.items()} == {
        visitor: len(actions) - actions.count("pass") for visitor, actions in live.items()
    }
    assert sum(fate.requests for fate in result.fates.values()) == len(traffic)
