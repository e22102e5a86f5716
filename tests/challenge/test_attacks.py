"""Attacks on challenges. Each of these must fail for the attacker; each test fails where its guard is taken out."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving import KEY, START
from hedgerow.challenge.form_data import Form
from hedgerow.challenge.protocol import Failed, Issued, Solved
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.state.used_challenges import MemoryUsedChallenges, SqliteUsedChallenges

from .solver import ANSWER, challenges, solution, visit

KINDS = ["work", "image", "audio"]


def issue(asker, who, kind, **more) -> Issued:
    issued = asker.issue(who, asker.ticket(who, 0.5, **more), kind)
    assert issued is not None
    return issued


def failure(result) -> str:
    assert isinstance(result, Failed), result
    return result.failure


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_answer_solves_the_challenge(kind):
    asker, who = challenges(), visit()
    issued = issue(asker, who, kind)
    result = asker.check(issued.ticket, issued.challenge, solution(issued), visit("/.hedgerow/answer", at=START + 29))
    assert isinstance(result, Solved)
    assert (result.kind, result.ticket.target) == (kind, "/docs/?page=2")


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_cannot_be_replayed(kind):
    asker, who = challenges(), visit()
    issued = issue(asker, who, kind)
    right = solution(issued)
    assert isinstance(asker.check(issued.ticket, issued.challenge, right, who), Solved)
    assert failure(asker.check(issued.ticket, issued.challenge, right, who)) == "spent"


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_cannot_be_replayed_at_another_process_of_the_site(kind, tmp_path):
    """Some other products accept one solution per process."""
    one, other = (challenges(SqliteUsedChallenges(tmp_path / "spent.sqlite")) for _ in range(2))
    who = visit()
    issued = issue(one, who, kind)
    right = solution(issued)
    assert isinstance(one.check(issued.ticket, issued.challenge, right, who), Solved)
    assert failure(other.check(issued.ticket, issued.challenge, right, who)) == "spent"


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_concurrent_answers_solve_a_challenge_once(store, tmp_path):
    path = tmp_path / "spent.sqlite"
    shared = MemoryUsedChallenges()
    askers = [challenges(shared if store == "memory" else SqliteUsedChallenges(path)) for _ in range(8)]
    who = visit()
    for _ in range(10):
        issued = issue(askers[0], who, "image")
        with ThreadPoolExecutor(8) as threads:
            results = list(threads.map(lambda a, i=issued: a.check(i.ticket, i.challenge, ANSWER, who), askers))
        assert sum(isinstance(result, Solved) for result in results) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_another_visitors_solution_is_rejected(kind):
    asker, who, thief = challenges(), visit(), visit(address="198.51.100.7")
    issued = issue(asker, who, kind)
    assert failure(asker.check(issued.ticket, issued.challenge, solution(issued), thief)) == "visitor"
    account = visit(account="ann", visitor="account:ann")
    assert failure(asker.check(issued.ticket, issued.challenge, solution(issued), account)) == "visitor"
    assert isinstance(asker.check(issued.ticket, issued.challenge, solution(issued), who), Solved), "its owner's still"


def test_another_visitors_ticket_keeps_its_target_but_not_its_form():
    asker, who, thief = challenges(), visit(method="POST"), visit(address="198.51.100.7")
    issued = issue(asker, who, "image", form=Form("urlencoded", (("card", "4111"),)))
    stolen = asker.read_ticket(issued.ticket, thief)
    assert (stolen.target, stolen.form, stolen.lost) == ("/docs/?page=2", None, True)
    mine = issue(asker, thief, "image")
    assert failure(asker.check(issued.ticket, mine.challenge, ANSWER, thief)) == "spliced"


def test_another_sites_solution_is_rejected():
    asker, who = challenges(), visit()
    issued = issue(asker, who, "image")
    elsewhere = visit(host="other.example")
    assert failure(asker.check(issued.ticket, issued.challenge, ANSWER, elsewhere)) == "tampered"


@pytest.mark.parametrize(("kind", "seconds"), [("work", 30), ("image", 30), ("audio", 60)])
def test_an_expired_challenge_is_rejected(kind, seconds):
    asker = challenges()
    issued = issue(asker, visit(), kind)
    late = visit(at=START + seconds)
    assert failure(asker.check(issued.ticket, issued.challenge, solution(issued), late)) == "expired"
    just = visit(at=START + seconds - 0.001)
    assert isinstance(asker.check(issued.ticket, issued.challenge, solution(issued), just), Solved)


def test_an_old_ticket_is_rejected():
    asker = challenges()
    issued = issue(asker, visit(), "image")
    assert asker.read_ticket(issued.ticket, visit(at=START + 3599)) is not None
    assert asker.read_ticket(issued.ticket, visit(at=START + 3601)) is None
    assert asker.read_ticket(issued.ticket, visit(at=START - 3601)) is None


def test_ticket_and_challenge_of_two_requests_are_rejected():
    """The easy challenge of one request with the form of another."""
    asker = challenges()
    one, other = issue(asker, visit("/one"), "image"), issue(asker, visit("/two"), "image")
    assert failure(asker.check(one.ticket, other.challenge, ANSWER, visit())) == "spliced"
    assert failure(asker.check(other.ticket, one.challenge, ANSWER, visit())) == "spliced"


def test_the_solution_of_one_calculation_fits_no_other():
    asker = challenges()
    one, other = issue(asker, visit(), "work"), issue(asker, visit(), "work")
    while solution(one) == solution(other):
        other = issue(asker, visit(), "work")
    assert failure(asker.check(one.ticket, one.challenge, solution(other), visit())) == "wrong"


@pytest.mark.parametrize("change", [lambda n: str(n + 1), lambda _: "", lambda n: f"-{n + 1}", lambda _: "9" * 10_000])
def test_only_the_number_itself_is_a_solution(change):
    """The question is not sent back: a client cannot make it easier, but only answer it."""
    asker = challenges()
    issued = issue(asker, visit(), "work")
    answer = change(int(solution(issued)))
    assert failure(asker.check(issued.ticket, issued.challenge, answer, visit())) == "wrong"


def test_a_wrong_answer_uses_up_the_challenge():
    """There is no second guess, not even with the right answer."""
    asker = challenges()
    for kind in KINDS:
        issued = issue(asker, visit(), kind)
        assert failure(asker.check(issued.ticket, issued.challenge, "WRONG1", visit())) == "wrong"
        assert failure(asker.check(issued.ticket, issued.challenge, solution(issued), visit())) == "spent"


def test_the_client_never_receives_the_answer():
    """The client gets no digest to try offline: two challenges with one answer have nothing in common."""
    asker = challenges()
    one, other = issue(asker, visit(), "image"), issue(asker, visit(), "image")
    for issued in (one, other):
        raw = base64.urlsafe_b64decode(issued.challenge + "==")
        assert ANSWER.encode() not in raw
    first, second = (base64.urlsafe_b64decode(i.challenge + "==")[1:] for i in (one, other))
    common = sum(first[n : n + 4] in second for n in range(len(first) - 4))
    assert common == 0


def test_the_kind_of_a_challenge_cannot_be_changed():
    """The answer to an image does not solve a calculation, and vice versa."""
    asker = challenges()
    for asked, answered in [("work", "image"), ("image", "work")]:
        issued, other = issue(asker, visit(), asked), issue(asker, visit(), answered)
        assert failure(asker.check(issued.ticket, issued.challenge, solution(other), visit())) == "wrong"


def test_an_external_challenge_needs_the_providers_confirmation():
    asker = challenges()
    issued = issue(asker, visit(), "external")
    result = asker.check(issued.ticket, issued.challenge, "anything", visit())
    assert not isinstance(result, Solved | Failed)
    assert failure(asker.check(issued.ticket, issued.challenge, "anything", visit())) == "spent"


def test_a_token_with_one_changed_bit_is_rejected():
    asker = challenges()
    issued = issue(asker, visit(), "image")
    for token, at in ((issued.ticket, 0), (issued.challenge, 1)):
        raw = base64.urlsafe_b64decode(token + "==")
        for bit in range(0, len(raw) * 8, 7):
            changed = bytearray(raw)
            changed[bit // 8] ^= 1 << bit % 8
            tokens = [issued.ticket, issued.challenge]
            tokens[at] = base64.urlsafe_b64encode(changed).decode().rstrip("=")
            assert failure(asker.check(*tokens, ANSWER, visit())) == "tampered"
    assert isinstance(asker.check(issued.ticket, issued.challenge, ANSWER, visit()), Solved)


def test_a_ticket_is_not_accepted_as_challenge_or_clearance():
    asker = challenges()
    issued = issue(asker, visit(), "image")
    assert failure(asker.check(issued.challenge, issued.ticket, ANSWER, visit())) == "tampered"
    assert failure(asker.check(issued.ticket, issued.ticket, ANSWER, visit())) == "tampered"


def test_a_challenge_issued_before_a_key_rotation_still_counts():
    old, new = Key(1, KEY, 0.0), Key(2, KEY[::-1], 1.0)
    asker = challenges(tokens=TokenCodecs([old]))
    issued = issue(asker, visit(), "image")
    later = challenges(tokens=TokenCodecs([old, new]))
    assert isinstance(later.check(issued.ticket, issued.challenge, ANSWER, visit()), Solved)
    dropped = challenges(tokens=TokenCodecs([new]))
    assert failure(dropped.check(issued.ticket, issued.challenge, ANSWER, visit())) == "tampered"


@given(st.one_of(st.text(), st.integers().map(str), st.binary().map(lambda raw: base64.b64encode(raw).decode())))
def test_a_malformed_answer_is_a_wrong_answer(said):
    # So hard that no guess is right by chance.
    asker = challenges(easiest=10**15, hardest=10**15)
    for kind in KINDS:
        issued = issue(asker, visit(), kind)
        assert failure(asker.check(issued.ticket, issued.challenge, said, visit())) == "wrong"
    assert failure(asker.check(said, said, said, visit())) == "tampered"
