"""The site: what stays when the settings change."""

from __future__ import annotations

import logging

from driving import Client, settings, traps_in
from hedgerow.core.ledger import NoLedger
from hedgerow.core.rate_limit import RateLimit
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.state.memory.state import MemoryState
from hedgerow.web.app import Site

SMALL = "[policy]\nsuspects = 'refuse'\n[density]\nwindows = [{ count = 3, seconds = 10.0 }]\n"


def test_counters_blocks_links_and_the_names_of_pages_survive_other_settings():
    client = Client(text=SMALL)
    trap = traps_in(client.get("/list").body)[0]
    for _ in range(5):
        client.get(peer="198.51.100.7")
    client.get()
    client.site.reload(settings(SMALL + "block_for = 5.0\n").without_clearances())
    assert client.site.app.gate.blocked == 1
    assert client.get(peer="198.51.100.7").status == 429
    assert [client.get().status for _ in range(2)] == [200, 429]
    client.clock.now += 5.0
    assert client.get(trap).status == 403
    assert client.entries[-1].decision.evidence[0].text == "Followed a link of the page /list that no person can see."


def test_other_settings_take_effect():
    client = Client()
    client.site.reload(settings("[traps]\nenabled = false"))
    assert traps_in(client.get().body) == []
    client.site.reload(settings("observe = 'links'\n[traps]\nplacement = 'end'\nresponse = 'detain'"))
    assert len(traps_in(client.get().body)) == 1
    assert client.site.app.maze is not None


def test_the_tarpit_stays_unless_its_own_settings_change():
    client = Client()
    tarpit = client.site.app.tarpit
    client.site.reload(settings("observe = true"))
    assert client.site.app.tarpit is tarpit
    client.site.reload(settings("[detain]\nconnections = 3"))
    assert client.site.app.tarpit is not tarpit


def test_a_state_that_remembers_nobody_is_still_the_state():
    state = MemoryState((RateLimit(count=3, seconds=10.0),))
    site = Site(settings(), tokens=TokenCodecs([Key(1, bytes(64), 0.0)]), state=state, ledger=NoLedger())
    assert site.stores.state is site.app.gate.state is state


def test_a_ledger_may_be_given():
    ledger = NoLedger()
    site = Site(settings("[state]\ndurable = false\n"), tokens=TokenCodecs([Key(1, bytes(64), 0.0)]), ledger=ledger)
    assert site.stores.ledger is site.app.gate.ledger is ledger


def test_pages_untouched_are_logged_once_for_each_reason(caplog):
    site = Client().site
    with caplog.at_level(logging.WARNING):
        for reason in ("coding", "broken", "coding"):
            site.counters.count_skipped(reason, "/x\r\nINFO forged")
    assert site.counters.skipped == {"coding": 2, "broken": 1}
    assert len(caplog.records) == 2
    assert all("\n" not in record.getMessage() for record in caplog.records)
