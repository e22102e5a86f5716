"""The state in Redis: what every state must do, what gates share, and what becomes of it while Redis is away."""

from __future__ import annotations

import itertools

import pytest

from stores.shared_conformance import SharedConformance
from stores.state_conformance import StateConformance
from stores.state_machine import compared
from stores.visits import open_redis

from .databases import RedisServer

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
