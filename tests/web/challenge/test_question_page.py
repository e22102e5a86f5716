"""The page that asks is a cached template: nothing of one visitor is in the page of another."""

from __future__ import annotations

from hedgerow.challenge.protocol import Issued
from hedgerow.web.challenge import question_page as challenge_question
from hedgerow.web.challenge.pages import ClientPreferences
from hedgerow.web.challenge.question_page import QuestionOptions, fill, question, slot


def test_slots_are_filled_and_nothing_else_is():
    page = f"<a>{slot('a')}</a>{slot('b')}{slot('a')}é"
    assert fill(page, {"a": "1", "b": slot("a"), "c": "3"}) == f"<a>1</a>{slot('a')}1é"
    assert fill(page, {"a": "", "b": "{a}"}) == "<a></a>{a}é"
    assert fill("", {}) == ""


def asked(visitor: str, site: str = "example.org", language: str = "de") -> bytes:
    issued = Issued("work", f"ticket-{visitor}", f"challenge-{visitor}", 30.0, f'{{"question": "{visitor}"}}')
    manner = ClientPreferences(language, "/~/", site, "", f"reference-{visitor}", f"code-{visitor}")
    answer = question(issued, issued.ticket, manner, QuestionOptions(("work", "image")))
    nonces = [part.partition('"')[0] for part in answer.body.decode().split('nonce="')[1:]]
    assert len(set(nonces)) == 1
    assert f"'nonce-{nonces[0]}'" in dict(answer.headers)[b"content-security-policy"].decode()
    return answer.body


def test_the_template_is_made_once_and_filled_for_each_visitor():
    challenge_question._templates.cache_clear()
    for visitor, other in (("one-1", "two-2"), ("two-2", "one-1")):
        text = asked(visitor).decode()
        for name in ("ticket", "challenge", "reference", "code"):
            assert f"{name}-{visitor}" in text
        assert f"{{&quot;question&quot;: &quot;{visitor}&quot;}}" in text
        assert other not in text
    asked("one-1", language="de-AT, en;q=0.5")
    assert challenge_question._templates.cache_info().currsize == 1
    assert b"<header>&lt;other&gt;</header>" in asked("one-1", "<other>")
    assert challenge_question._templates.cache_info().currsize == 2
    asked("one-1", "x" * 10_000)
    assert challenge_question._templates.cache_info().currsize == 2
