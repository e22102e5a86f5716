"""The state in Redis: what every state must do, what gates share, and what becomes of it while Redis is away."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import itertools
import logging
import signal
import time
from contextlib import closing

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hedgerow.core.decision import ScoreUpdate
from hedgerow.core.gate import run_now
from hedgerow.core.ledger import NoLedger
from hedgerow.core.state import StateUnavailable
from hedgerow.markers.token import Key, TokenCodecs, visitor_digest
from hedgerow.settings import read_settings
from hedgerow.state.redis.address import parse_redis_address
from hedgerow.state.redis.shared_stores import RedisClearanceUsage, RedisRevokedBots, RedisUsedChallenges
from hedgerow.state.redis.state import RedisState
from hedgerow.watch.session_store import PendingSession
from hedgerow.watch.sessions.path import PathSession
from hedgerow.web.gate import build_gate
from hedgerow.web.redis_stores import SiteWatch, build_redis, delete_session, read_session
from state.shared_conformance import SharedConformance
from state.state_conformance import ANN, HOME, START, WINDOW, StateConformance, ask, block
from state.state_machine import compared
from state.thread_redis import ThreadRedisState, open_redis

from .databases import PATIENCE, RedisServer, command
from .servers import free_port

_numbers = itertools.count()
_running: list[RedisServer] = []


@pytest.fixture(scope="module", autouse=True)
def server():
    _running.append(RedisServer())
    yield _running[0]
    _running.pop().close()


def fresh(windows, **options):
    return open_redis(_running[0].url, windows, f"test{next(_numbers)}:", **options)


class TestRedisState(StateConformance):
    @pytest.fixture(autouse=True)
    def _close(self):
        TestRedisState.opened = []
        yield
        for state in TestRedisState.opened:
            state.close()

    def state(self, windows, **options):
        if len(self.opened) > 20:
            self.opened.pop(0).close()
        state = fresh(windows, **options)
        self.opened.append(state)
        return state


class TestRedisShared(SharedConformance):
    def shared(self, windows):
        return open_redis, (_running[0].url, windows, f"test{next(_numbers)}:")


TestRedisMachine = compared(fresh).TestCase


def wait_until(met) -> None:
    end = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_everything_has_an_end(server):
    command(server.port, "FLUSHALL")
    with closing(fresh(WINDOW, remember=100.0)) as state:
        state.record_visit(msgspec.structs.replace(ask(0.0, ANN), day=7))
        state.commit(block(ANN))
        state.update_score(ScoreUpdate(HOME, START, 1, 60.0, weight=0.5, codes=("a",), entry="/x"))
        assert RedisUsedChallenges(state).mark_used(b"1", START + 60, START)
        RedisClearanceUsage(state).record_use(b"1", b"net", START)
        RedisRevokedBots(state)["bot"] = time.time() + 60
        keys = state.ask(("KEYS", "*"))
        assert len(keys) >= 10
        assert all(key.startswith(b"test") for key in keys)
        assert [key for key in keys if state.ask(("PTTL", key)) <= 0] == []


def test_a_block_from_before_it_was_forgiven_does_not_come_back():
    """A server that could not reach Redis tells it later what it decided in the meantime."""
    name = f"test{next(_numbers)}:"
    with (
        closing(open_redis(_running[0].url, WINDOW, name)) as late,
        closing(open_redis(_running[0].url, WINDOW, name, clock=time.time)) as other,
    ):
        now = time.time()
        old = msgspec.structs.replace(block(ANN), since=now - 60, until=now + 600)
        other.commit(old)
        other.forgive(ANN)
        late.commit(old)
        assert other.blocks(now) == []
        late.commit(msgspec.structs.replace(old, since=now + 1))
        assert [one.key for one in other.blocks(now)] == [ANN]


# ---- Away


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_while_redis_is_away_a_gate_counts_by_itself_and_tells_later(how, caplog):
    with closing(RedisServer()) as own, caplog.at_level(logging.WARNING):
        state = ThreadRedisState(parse_redis_address(own.url), WINDOW, prefix="x:")
        other = open_redis(own.url, WINDOW, "x:")
        with closing(state), closing(other):
            state.commit(block("known", "known", until=1e6))
            own.kill(how)
            assert [state.record_visit(ask(n / 10)).counts for n in range(3)] == [(1,), (2,), (3,)]
            # Whether there was anything to forgive nobody knows now.
            assert state.forgive(HOME) is None
            assert state.record_visit(ask(0.0, "known")).block is not None
            state.commit(block(until=1e6))
            state.update_score(ScoreUpdate(ANN, START, 1, 60.0, weight=0.5))
            assert state.unavailable
            assert state.record_visit(ask(1.0)).block is not None
            own.kill(signal.SIGCONT) if how == signal.SIGSTOP else own.start()
            wait_until(lambda: not state.unavailable and not other.unavailable)
            wait_until(lambda: other.record_visit(ask(2.0)).block is not None)
            assert other.record_visit(ask(2.0, ANN)).score.total == 0.5
            assert "Redis does not answer" in caplog.text


def test_what_was_blocked_elsewhere_stays_blocked_while_redis_is_away():
    with closing(RedisServer()) as own:
        mine, other = (
            ThreadRedisState(parse_redis_address(own.url), WINDOW, prefix="x:", timeout=5.0) for _ in range(2)
        )
        with closing(mine), closing(other):
            other.commit(block(until=1e6))
            assert mine.record_visit(ask(1.0)).block is not None
            own.kill()
            assert mine.record_visit(ask(2.0)).block is not None


def test_who_was_forgiven_at_one_gate_is_not_blocked_at_another_while_redis_is_away():
    """The other gate has a copy of the block, for when Redis is away. It must go with the block."""
    with closing(RedisServer()) as own:
        mine, other = (
            ThreadRedisState(parse_redis_address(own.url), WINDOW, prefix="x:", timeout=5.0) for _ in range(2)
        )
        with closing(mine), closing(other):
            mine.commit(block(until=1e6))
            assert other.record_visit(ask(1.0)).block is not None
            assert mine.forgive(HOME)
            assert other.record_visit(ask(2.0)).block is None
            own.kill()
            assert other.record_visit(ask(3.0)).block is None
            assert mine.record_visit(ask(3.0)).block is None


def test_who_is_forgiven_while_redis_is_away_is_forgiven_at_all_gates_when_it_is_back():
    with closing(RedisServer()) as own:
        mine, other = (
            ThreadRedisState(parse_redis_address(own.url), WINDOW, prefix="x:", timeout=5.0, clock=time.time)
            for _ in range(2)
        )
        with closing(mine), closing(other):
            now = time.time()
            mine.commit(msgspec.structs.replace(block(), since=now - 60, until=now + 600))
            assert other.record_visit(ask(now - START)).block is not None
            own.kill(signal.SIGSTOP)
            mine.forgive(HOME)
            assert mine.record_visit(ask(now - START)).block is None
            own.kill(signal.SIGCONT)
            wait_until(lambda: not mine.unavailable)
            wait_until(lambda: other.record_visit(ask(now - START)).block is None)
            own.kill()
            assert other.record_visit(ask(now - START)).block is None


def test_a_redis_that_was_restarted_empty_is_told_of_blocks_that_gates_know():
    with closing(RedisServer()) as own:
        mine, other = (
            ThreadRedisState(parse_redis_address(own.url), WINDOW, prefix="x:", timeout=5.0, clock=time.time)
            for _ in range(2)
        )
        with closing(mine), closing(other):
            now = time.time()
            mine.commit(msgspec.structs.replace(block(), since=now - 60, until=now + 600))
            own.kill()
            own.start()
            wait_until(lambda: mine.record_visit(ask(now - START)).block is not None and not mine.unavailable)
            wait_until(lambda: other.record_visit(ask(now - START)).block is not None)
            assert [one.key for one in other.blocks(now)] == [one.key for one in mine.blocks(now)]


def test_closed_nobody_is_let_in_while_redis_is_away_and_the_answer_is_503():
    settings = read_settings("", environment={})
    with closing(RedisServer()) as own:
        state = ThreadRedisState(parse_redis_address(own.url), WINDOW, prefix="x:", closed=True, timeout=5.0)
        with closing(state):
            gate = build_gate(settings, tokens=TokenCodecs([Key(1, bytes(64), 0.0)]), state=state, ledger=NoLedger())
            visit = gate.identifier.visit(START, HOME, "GET", "/", [(b"host", b"a")])
            assert run_now(gate.decide(visit)).action == "pass"
            own.kill()
            with pytest.raises(StateUnavailable):
                state.record_visit(ask())
            decision = run_now(gate.decide(visit))
            assert (decision.action, decision.code) == ("refuse", "store-away")
            assert not RedisUsedChallenges(state, closed=True).mark_used(b"1", START + 60, START)


def test_nobody_there_at_the_start_is_no_reason_not_to_start():
    with closing(RedisServer()) as own:
        own.stop()
        with closing(ThreadRedisState(parse_redis_address(own.url), WINDOW, prefix="x:", timeout=5.0)) as state:
            assert state.record_visit(ask()).counts == (1,)
            own.start()
            wait_until(lambda: not state.unavailable)
            assert state.record_visit(ask()).counts == (1,)


# ---- In an event loop


def test_in_a_loop_the_answers_are_the_same_and_all_at_once_go_out_together():
    async def run(state) -> list:
        found = await asyncio.gather(*(state.record_visit(ask(n / 100)) for n in range(50)))
        await state.record_visit(ask(0.5, kind="asset"))
        turned = await state.record_visit(ask(0.5), "asset")
        await state.disconnect()
        return [memory.counts[0] for memory in found] + [turned.counts[0]]

    with closing(RedisState(parse_redis_address(_running[0].url), WINDOW, prefix="loop:", timeout=20.0)) as state:
        # Five are allowed: a store may stop counting at one more.
        assert asyncio.run(run(state)) == [*range(1, 6), *[6] * 46]


def test_in_a_loop_a_redis_that_hangs_is_waited_for_once():
    async def run(own: RedisServer, state: RedisState) -> None:
        async def told():
            # Sent, and not answered: told again when it is back.
            state.commit(block(until=1e6))
            return await state.record_visit(ask(1.0, ANN))

        assert (await state.record_visit(ask())).counts == (1,)
        own.kill(signal.SIGSTOP)
        hung = await asyncio.gather(*(state.record_visit(ask(n / 10, ANN)) for n in range(4)), told())
        assert sorted(memory.counts for memory in hung) == [(1,), (2,), (3,), (4,), (5,)]
        assert state.alone == 5
        own.kill(signal.SIGCONT)
        async with asyncio.timeout(PATIENCE):
            while state.unavailable:
                await asyncio.sleep(0.01)
        assert (await state.record_visit(ask(1.0))).block is not None
        # What it was sent while it hung it may have counted, or not.
        assert (await state.record_visit(ask(1.0, ANN))).counts in {(1,), (6,)}
        await state.disconnect()

    with (
        closing(RedisServer()) as own,
        closing(RedisState(parse_redis_address(own.url), WINDOW, prefix="x:", timeout=0.5)) as state,
    ):
        asyncio.run(run(own, state))


class DecidingLate(RedisState):
    """A state that is given a block just after it has chosen the first commands of a connection."""

    late = ()

    def _first_commands(self):
        first = super()._first_commands()
        for one in self.late:
            asyncio.get_running_loop().call_soon(self.commit, one)
        return first


def test_in_a_loop_what_is_decided_while_a_connection_opens_is_told_once_it_is_open():
    async def run(own: RedisServer, state: DecidingLate) -> None:
        assert (await state.record_visit(ask())).counts == (1,)
        state.late = (block(until=1e6),)
        own.kill()
        own.start()
        async with asyncio.timeout(PATIENCE):
            while state.unavailable or await in_redis(own) != [HOME]:
                await asyncio.sleep(0.01)
        await state.disconnect()

    async def in_redis(own: RedisServer) -> list[str]:
        with closing(open_redis(own.url, WINDOW, "x:")) as other:
            return [one.key for one in await asyncio.to_thread(other.blocks, 2.0)]

    with (
        closing(RedisServer()) as own,
        closing(DecidingLate(parse_redis_address(own.url), WINDOW, prefix="x:", timeout=5.0)) as state,
    ):
        asyncio.run(run(own, state))


# ---- What else is shared


def test_a_challenge_is_spent_once_at_whatever_gate():
    name = f"test{next(_numbers)}:"
    states = [open_redis(_running[0].url, WINDOW, name) for _ in range(2)]
    first, second = map(RedisUsedChallenges, states)
    assert first.mark_used(b"one", START + 60, START)
    assert not first.mark_used(b"one", START + 60, START)
    assert not second.mark_used(b"one", START + 60, START)
    assert second.mark_used(b"two", START + 60, START)
    assert not second.mark_used(b"three", START, START)
    for state in states:
        state.close()


def test_a_clearance_that_is_handed_round_between_gates_is_noticed():
    name = f"test{next(_numbers)}:"
    states = [open_redis(_running[0].url, WINDOW, name) for _ in range(2)]
    first, second = map(RedisClearanceUsage, states)
    assert first.record_use(b"c", b"n1", START) == 1
    assert second.record_use(b"c", b"n2", START + 1) == 2
    assert first.record_use(b"c", b"n3", START + 2) == 3
    assert second.is_shared(second.record_use(b"c", b"n2", START + 3))
    for state in states:
        state.close()


def test_a_bot_that_has_lost_its_welcome_at_one_gate_has_lost_it_at_all():
    name = f"test{next(_numbers)}:"
    states = [open_redis(_running[0].url, WINDOW, name) for _ in range(2)]
    first, second = map(RedisRevokedBots, states)
    until = time.time() + 60
    assert first.get("Bot") is None
    first["Bot"] = until
    assert second.get("Bot") == until
    assert second.get("Other") is None
    for state in states:
        state.close()


# ---- Passwords and TLS


def test_what_the_watches_have_stored_about_a_visitor_is_read_and_deleted():
    """For `hedgerow visitors export` and `forget`, under the names that the watches use."""
    settings = read_settings(f'[state]\nurl = "{_running[0].url}"\nprefix = "test{next(_numbers)}:"\n', name="x")
    with closing(build_redis(settings)) as state, closing(SiteWatch(settings, state)) as watch:
        session = PendingSession(PathSession())
        for n in range(12):
            session.path.add(START + n, f"/{n}", None)
        state.ask(("SET", watch._session_key(ANN), session.to_bytes(), "EX", 60))
        state.ask(("HSET", state.key("ties"), visitor_digest(ANN), b"links"))
        assert read_session(state, HOME) is None
        found = read_session(state, ANN)
        assert (found.pages, bytes.fromhex(found.links)) == (12, b"links")
        assert delete_session(state, ANN)
        assert read_session(state, ANN) is None
        assert not delete_session(state, ANN)


def test_a_password_and_a_database():
    with closing(RedisServer("--requirepass", "s3cret")) as own:
        url = own.url.removesuffix("0") + "3"
        with closing(
            ThreadRedisState(parse_redis_address(url, password="s3cret"), WINDOW, prefix="x:", timeout=5.0)
        ) as state:
            assert state.record_visit(ask()).counts == (1,)
            assert not state.unavailable
        with closing(RedisState(parse_redis_address(url), WINDOW, prefix="x:", timeout=5.0)) as state:
            assert state.unavailable

            async def run() -> None:
                assert (await state.record_visit(ask())).counts == (1,)
                await state.disconnect()

            asyncio.run(run())
            assert state.alone == 1


def certificate(folder) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "redis")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private)


def test_tls(tmp_path):
    certificate(tmp_path)
    port = free_port()
    options = ["--tls-port", str(port), "--tls-cert-file", str(tmp_path / "cert.pem"), "--tls-auth-clients", "no"]
    with closing(RedisServer(*options, "--tls-key-file", str(tmp_path / "key.pem"))):
        url, trusted = f"rediss://127.0.0.1:{port}", str(tmp_path / "cert.pem")
        with closing(
            ThreadRedisState(parse_redis_address(url, ca_file=trusted), WINDOW, prefix="x:", timeout=5.0)
        ) as state:
            assert state.record_visit(ask()).counts == (1,)
            assert not state.unavailable
        with closing(RedisState(parse_redis_address(url, ca_file=trusted), WINDOW, prefix="x:", timeout=5.0)) as state:

            async def run() -> tuple[int, ...]:
                found = await state.record_visit(ask())
                await state.disconnect()
                return found.counts

            assert asyncio.run(run()) == (2,)
        # A certificate that nobody vouches for is not talked to.
        with closing(RedisState(parse_redis_address(url), WINDOW, prefix="x:", timeout=5.0)) as state:
            assert state.unavailable


@pytest.mark.parametrize("url", ["", "redis://", "http://127.0.0.1", "redis://127.0.0.1:99999", "redis://a/b"])
def test_what_is_no_address(url):
    with pytest.raises(ValueError, match="is not an address"):
        parse_redis_address(url)
