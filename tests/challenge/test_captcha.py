"""CAPTCHAs, proof of work and external providers."""

from __future__ import annotations

import io
import wave

import pytest
from PIL import Image

from hedgerow.challenge.captcha import DIGITS, LETTERS, digest, make_audio, make_image
from hedgerow.challenge.external import PROVIDERS, is_confirmed, verify_body
from hedgerow.challenge.proof_of_work import difficulty_of, make_question

from .solver import solve


def test_an_image_is_a_small_png_with_known_letters():
    puzzle = make_image()
    assert set(puzzle.answer) <= set(LETTERS)
    assert len(puzzle.answer) == 6
    picture = Image.open(io.BytesIO(puzzle.content))
    assert (picture.format, picture.size) == ("PNG", (280, 90))
    assert len(puzzle.content) < 6_000
    assert puzzle.answer.encode() not in puzzle.content


def test_a_recording_is_a_wav_with_digits():
    puzzle = make_audio()
    assert set(puzzle.answer) <= set(DIGITS)
    with wave.open(io.BytesIO(puzzle.content)) as recording:
        seconds = recording.getnframes() / recording.getframerate()
    assert 5 < seconds < 20


def test_no_two_captchas_have_the_same_answer():
    assert make_image().answer != make_image().answer
    assert make_audio().answer != make_audio().answer


@pytest.mark.parametrize(
    "typed", ["karl79", " KARL 79 ", "KARL-79", "\uff2b\uff21\uff32\uff2c\uff17\uff19", "KaRl79\r\n"]
)
def test_case_spaces_and_width_of_an_answer_do_not_matter(typed):
    assert digest(typed, b"s") == digest("KARL79", b"s")


def test_a_different_answer_has_a_different_digest():
    assert digest("KARL7", b"s") != digest("KARL79", b"s") != digest("KARL79", b"t")
    digest("\ud800" * 1000, b"s")


def test_difficulty_grows_and_has_bounds():
    found = [difficulty_of(s / 4, 1_000, 50_000) for s in range(20)]
    assert found == sorted(found)
    assert found[0] == 1_000
    assert found[4] == 4_000
    assert found[-1] == 50_000
    assert difficulty_of(float("nan"), 1_000, 50_000) == 50_000
    assert difficulty_of(float("inf"), 1_000, 50_000) == 50_000
    assert difficulty_of(-5.0, 1_000, 50_000) == 1_000


def test_a_proof_of_work_can_be_solved_and_is_checked():
    for difficulty in (1, 20, 300):
        question = make_question(difficulty)
        assert solve(question.text) == question.answer
        assert 0 <= int(question.answer) <= difficulty
    assert make_question(20).text != make_question(20).text


@pytest.mark.parametrize(
    ("said", "confirmed"),
    [
        (b'{"success": true, "hostname": "example.org"}', True),
        (b'{"success": false, "error-codes": ["timeout-or-duplicate"]}', False),
        (b'{"success": false, "error-codes": ["invalid-input-secret"]}', None),
        (b'{"success": false, "error-codes": ["internal-error"]}', None),
        (b'{"success": "true"}', None),
        (b'{"success": 1}', None),
        (b"[]", None),
        (b"", None),
        (b"<html>", None),
        (b'{"success": false, "error-codes": [[]]}', False),
    ],
)
def test_the_reply_of_a_provider_is_parsed(said, confirmed):
    assert is_confirmed(said) is confirmed


def test_the_request_to_a_provider_has_secret_answer_and_address():
    assert verify_body("s&", "a b", "192.0.2.1") == b"secret=s%26&response=a+b&remoteip=192.0.2.1"


def test_the_content_security_policy_allows_one_provider():
    for name, provider in PROVIDERS.items():
        sources = provider.policy_sources()
        assert all(source.startswith("https://") for source in sources), name
    assert PROVIDERS["turnstile"].policy_sources() == ("https://challenges.cloudflare.com",)
    elsewhere = PROVIDERS["recaptcha"].with_addresses("https://www.recaptcha.net/recaptcha/api.js", "")
    assert elsewhere.policy_sources() == ("https://www.recaptcha.net",)
