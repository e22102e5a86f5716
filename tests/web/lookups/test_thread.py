"""The background: what is asked, how often, and what an outage changes: nothing."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fakedns import FakeDns, settle
from hedgerow.request.bot_cache import BotCache
from hedgerow.request.bots import KnownBot, NameLookup
from hedgerow.web.lookups.dns import DnsResolver
from hedgerow.web.lookups.thread import LookupThread

BOT = KnownBot("Googlebot", "search", agent="Googlebot", domains=("googlebot.com",))


class Asking:
    """An acquaintance, its background and a name server."""

    def __init__(self, server: FakeDns) -> None:
        self.server = server
        self.known = BotCache()
        self.background = LookupThread(
            self.known, DnsResolver(("127.0.0.1", server.port), seconds=0.3), retry_after=10.0
        )

    def proof(self, at: float, address: str = "192.0.2.1") -> str:
        found = self.known.proofs.find(BOT, address, at)
        assert settle(self.background)
        return found


@pytest.fixture
def asking():
    with FakeDns() as server:
        one = Asking(server)
        yield one
        one.background.close()


def test_the_first_visit_is_pending_and_the_next_is_known(asking):
    asking.server.is_true("192.0.2.1", "a.googlebot.com")
    assert asking.proof(0.0) == "pending"
    assert asking.proof(1.0) == "verified"
    assert asking.proof(2.0, "192.0.2.2") == "pending"
    assert asking.proof(3.0, "192.0.2.2") == "false"
    assert sum(asking.server.asked.values()) == 3


def test_an_answer_is_asked_for_again_when_it_is_old(asking):
    asking.server.is_true("192.0.2.1", "a.googlebot.com")
    asking.proof(0.0)
    del asking.server.names["192.0.2.1"]
    assert asking.proof(86_000.0) == "verified"
    assert asking.proof(87_000.0) == "verified", "the old answer stands until there is another"
    assert asking.proof(87_001.0) == "false"
    asking.server.is_true("192.0.2.1", "a.googlebot.com")
    assert asking.proof(87_001.0 + 3000) == "false"
    asking.proof(87_001.0 + 3700)
    assert asking.proof(87_001.0 + 3701) == "verified"


@pytest.mark.parametrize("mood", ["failing", "silent"])
@pytest.mark.slow
def test_an_outage_changes_nothing(asking, mood):
    asking.server.is_true("192.0.2.1", "a.googlebot.com")
    asking.proof(0.0)
    asking.proof(0.0, "192.0.2.2")
    asking.server.mood = mood
    asked = sum(asking.server.asked.values())
    for at in (1.0, 90_000.0, 900_000.0, 9_000_000.0):
        assert asking.proof(at) == "verified"
        assert asking.proof(at, "192.0.2.2") == "false"
        assert asking.proof(at, "192.0.2.3") == "pending"
    assert sum(asking.server.asked.values()) > asked


def test_who_gave_no_answer_is_not_asked_at_once_again(asking):
    asking.server.mood = "failing"
    for n in range(20):
        asking.proof(n / 10)
    few = sum(asking.server.asked.values())
    asking.proof(11.0)
    assert sum(asking.server.asked.values()) == 2 * few


def test_one_question_is_under_way_once():
    gate = threading.Event()
    count = 0

    class Slow:
        async def names(self, _):
            nonlocal count
            count += 1
            await asyncio.to_thread(gate.wait)
            return []

        async def addresses(self, *_):
            return []

    known = BotCache()
    background = LookupThread(known, Slow())
    for _ in range(50):
        assert known.proofs.find(BOT, "192.0.2.1", 0.0) == "pending"
    gate.set()
    assert settle(background)
    assert count == 1
    background.close()
    background.close()


def test_a_flood_of_claims_is_dropped_and_nothing_waits():
    class Never:
        async def names(self, _):
            await asyncio.sleep(60)

        async def addresses(self, *_):
            await asyncio.sleep(60)

    known = BotCache()
    background = LookupThread(known, Never())
    for n in range(3000):
        assert known.proofs.find(BOT, f"2001:db8::{n:x}", 0.0) == "pending"
    assert background.dropped == 2000
    background.close()


def test_a_flood_of_lies_drives_no_true_bot_out():
    known = BotCache()
    known.proofs._max_entries = 10
    known.proofs.learn(NameLookup(BOT, "192.0.2.1", 0.0), true=True)
    for n in range(100):
        known.proofs.learn(NameLookup(BOT, f"198.51.100.{n}", 0.0), true=False)
    assert known.proofs.find(BOT, "192.0.2.1", 1.0) == "verified"
    assert len(known.proofs) == 11
