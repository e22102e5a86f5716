"""A site of linked pages behind a real gate, and visitors that follow its links; a watch looks on."""

from __future__ import annotations

import random
from collections.abc import Sequence

from driving import KEY, START, Entries, settings
from hedgerow.core.decision import Decision
from hedgerow.core.gate import run_now
from hedgerow.markers.token import Key, TokenCodecs, page_digest, visitor_digest
from hedgerow.web.gate import build_gate
from hedgerow.web.watch import build_watch

HOST = "example.org"
PAGES = 2_000


class SharedSite:
    """Each page links to twenty others; a link is the token that the gate's own seal gives."""

    def __init__(self, text: str = "") -> None:
        self.seals = TokenCodecs([Key(1, KEY, 0.0)])
        # Nobody obtains a clearance here: what a campaign is, not what a visitor may read, is looked at.
        text += "[containment]\nenabled = false\n[watch]\npaths = 'record'\nwindows = 'record'\n"
        self.gate = build_gate(settings(text), tokens=self.seals, ledger=Entries())
        self.watch = build_watch(settings(text), self.gate.engine.policy, self.gate.state.update_score)
        self.gate.on_decision = self.watch.see
        self.now = START
        self.asked = 0

    def get(
        self,
        address: str,
        link: str = "/",
        wait: float = 1.0,
        cookie: str = "",
        more: Sequence[tuple[bytes, bytes]] = (),
    ) -> tuple[Decision, list[str]]:
        """Ask for a page, with *more* headers, and get the links on it."""
        self.now += wait
        self.asked += 1
        headers = [(b"host", HOST.encode()), (b"user-agent", b"Mozilla/5.0"), (b"accept", b"text/html")]
        headers += more
        if cookie:
            headers.append((b"cookie", cookie.encode()))
        visit = self.gate.identifier.visit(self.now, address, "GET", link, headers)
        decision = run_now(self.gate.decide(visit))
        self.gate.record(visit, decision, 200)
        if decision.action != "pass":
            return decision, []
        seal = self.seals.of(HOST).sealer(visitor_digest(visit.visitor), page_digest(visit.target))
        targets = random.Random(visit.target).sample(range(PAGES), 20)
        tokens = seal([b"\x01" + b"/page/%d" % target for target in targets])
        return decision, ["/~" + token.decode() for token in tokens[: len(targets)]]

    @property
    def campaigns(self):
        return self.watch.campaigns()
