"""The tarpit: the budget is never exceeded, and a page arrives whole and slowly."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from hedgerow.traps.tarpit import Stay, Tarpit

CONNECTIONS, MEMORY = 4, 1_000


class Budget(RuleBasedStateMachine):
    """Clients come and go in any order; some leave twice."""

    stays = Bundle("stays")

    def __init__(self) -> None:
        super().__init__()
        self.tarpit = Tarpit(CONNECTIONS, MEMORY)
        self.inside: list[Stay] = []
        self.asked = 0

    @rule(target=stays, size=st.integers(0, 600))
    def come(self, size):
        fits = len(self.inside) < CONNECTIONS and sum(s.size for s in self.inside) + size <= MEMORY
        stay = self.tarpit.admit(size)
        self.asked += 1
        assert (stay is not None) == fits
        if stay is not None:
            self.inside.append(stay)
        return stay

    @rule(stay=stays)
    def leave(self, stay):
        if stay is not None:
            stay.leave()
            self.inside = [other for other in self.inside if other is not stay]

    @rule(stay=consumes(stays))
    def leave_for_good(self, stay):
        self.leave(stay)

    @invariant()
    def accounts_are_right(self):
        tarpit = self.tarpit
        assert 0 <= tarpit.inside == len(self.inside) <= CONNECTIONS
        assert 0 <= tarpit.bytes_inside == sum(stay.size for stay in self.inside) <= MEMORY
        assert tarpit.admitted + tarpit.turned_away == self.asked

    def teardown(self):
        for stay in self.inside:
            stay.leave()
        assert (self.tarpit.inside, self.tarpit.bytes_inside) == (0, 0)


TestBudget = Budget.TestCase


@given(st.binary(max_size=300), st.floats(0, 1e4), st.integers(1, 60))
def test_a_page_arrives_whole_over_the_configured_time(body, seconds, pieces):
    stay = Tarpit(seconds=seconds, pieces=pieces).admit(len(body))
    sent = list(stay.pieces(body))
    assert b"".join(piece for _, piece in sent) == body
    assert all(piece for _, piece in sent)
    assert len(sent) == min(pieces, len(body))
    assert [pause for pause, _ in sent[:1]] in ([], [0.0])
    if len(sent) > 1:
        assert sum(pause for pause, _ in sent) == pytest.approx(seconds)


def test_concurrent_threads_never_exceed_the_budget():
    tarpit = Tarpit(CONNECTIONS, MEMORY)
    worst = []

    def come_and_go(number):
        for _ in range(300):
            stay = tarpit.admit(number * 40)
            if stay is not None:
                worst.append((tarpit.inside, tarpit.bytes_inside))
                stay.leave()
                stay.leave()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(come_and_go, range(8)))
    assert max(inside for inside, _ in worst) <= CONNECTIONS
    assert max(size for _, size in worst) <= MEMORY
    assert (tarpit.inside, tarpit.bytes_inside) == (0, 0)
    assert tarpit.admitted + tarpit.turned_away == 8 * 300


def test_a_stay_ends_even_when_the_client_disconnects():
    tarpit = Tarpit()

    def serve():
        with tarpit.admit(10):
            assert tarpit.inside == 1
            raise ConnectionError

    with pytest.raises(ConnectionError):
        serve()
    assert (tarpit.inside, tarpit.bytes_inside) == (0, 0)


def test_a_page_larger_than_admitted_is_an_error():
    with pytest.raises(ValueError, match="admitted for 3 bytes"):
        Tarpit().admit(3).pieces(b"four")


def test_invalid_arguments_are_an_error():
    with pytest.raises(ValueError, match="at least 0 bytes"):
        Tarpit().admit(-1)
    with pytest.raises(ValueError, match="pieces at least 1"):
        Tarpit(pieces=0)


def test_an_empty_budget_refuses_every_client():
    tarpit = Tarpit(connections=0)
    assert tarpit.admit(0) is None
    assert (tarpit.admitted, tarpit.turned_away) == (0, 1)
