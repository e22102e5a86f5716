"""Each fuzz target, over its corpus and some mutations of it. `make fuzz` runs them for longer."""

from __future__ import annotations

import random

import pytest

from .registry import CORPUS, corpus
from .targets import TARGETS

MUTATIONS = {"growth": 20, "request": 150, "upstream": 150, "answer": 150, "spoe": 150}
USUAL = 300
PARTS = [
    b"\r\n",
    b"\0",
    b"\xff",
    b'"',
    b"'",
    b"<",
    b">",
    b"&",
    b";",
    b",",
    b"{",
    b"[",
    b"99999999999999999999",
    b"-1",
    b"%",
]


def mutated(chance: random.Random, inputs: list[bytes]) -> bytes:
    """One of *inputs* with a few bytes changed, cut, repeated, or joined to another one."""
    data = bytearray(chance.choice(inputs))
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(data))
        match chance.randrange(5):
            case 0 if data:
                data[at % len(data)] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 8)]
            case 2:
                data[at:at] = chance.choice(PARTS)
            case 3:
                data[at:at] = data[at : at + chance.randint(1, 32)] * chance.randint(1, 8)
            case _:
                data[at:] = chance.choice(inputs)[chance.randint(0, 40) :]
    return bytes(data[:4096])


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_the_corpus(name):
    for data in corpus(name):
        TARGETS[name](data)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_mutations(name):
    chance, inputs = random.Random(name), corpus(name)
    for _ in range(MUTATIONS.get(name, USUAL)):
        data = mutated(chance, inputs)
        try:
            TARGETS[name](data)
        except Exception as error:
            error.add_note(f"input: {data!r}")
            raise


def test_each_target_has_a_corpus():
    assert sorted(path.name for path in CORPUS.iterdir()) == sorted(TARGETS)
    assert all(corpus(name) for name in TARGETS)


@pytest.mark.parametrize("data", [b"\0\0\0abc", b"\0\0\0ab}"], ids=["at a glance", "as large texts"])
def test_a_quadratic_cost_is_noticed(monkeypatch, data):
    from . import growth

    monkeypatch.setattr(growth, "seconds_of", lambda _, text: len(text) ** 2 / 1e9)
    with pytest.raises(AssertionError, match="bytes"):
        growth.growth(data)
