"""Who has read robots.txt is taken at its word, unless it is a browser."""

from __future__ import annotations

import msgspec
import pytest

from driving import PAGE, Application, Client, marked_links_in, traps_in
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.detectors.robots_reader import is_disallowed

READER = StateReply(None, (), entries=("/", "/robots.txt"))
VISIT = Visit(
    1.0, "192.0.2.1", "192.0.2.1", "192.0.2.1", "GET", "/a", raw_target="/a?~=x", user_agent="Wget/1.21.3"
)  # fmt: skip
CRAWLER = {"user-agent": "SmallBot/1.0", "accept": "text/html"}
FIREFOX = {
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "accept": "text/html",
}


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("Wget/1.21.3", True),
        ("", True),
        ("Mozilla/5.0 (compatible; SmallBot/1.0; +http://small.example)", True),
        ("Mozilla/5.0 SmallBot (+https://small.example)", True),
        (FIREFOX["user-agent"], False),
    ],
)
def test_programs_are_told_from_browsers(agent, expected):
    assert is_disallowed(msgspec.structs.replace(VISIT, user_agent=agent), READER) is expected


def test_only_links_with_a_clean_mark_after_robots_txt_are_declined():
    assert not is_disallowed(VISIT, StateReply(None, (), entries=("/",)))
    # Every program understands the rule for these.
    assert not is_disallowed(msgspec.structs.replace(VISIT, raw_target="/~token"), READER)
    assert not is_disallowed(msgspec.structs.replace(VISIT, raw_target=""), READER)


def robots_and_page(headers: dict[str, str]) -> tuple[Client, bytes]:
    client = Client(Application(PAGE))
    page = client.get("/", headers=headers).body
    client.get("/robots.txt", headers=headers)
    return client, page


def test_a_program_that_reads_robots_txt_is_declined_and_never_blocked():
    client, page = robots_and_page(CRAWLER)
    for link in (*traps_in(page), *marked_links_in(page)):
        assert client.get(link, headers=CRAWLER).status == 403
        assert client.entries[-1].decision.evidence[0].code == "robots-disallowed"
    assert client.site.app.gate.blocked == 0
    assert client.get("/", headers=CRAWLER).status == 200
    # Somebody with a browser behind the same address is not meant.
    assert client.get(marked_links_in(page)[0], headers=FIREFOX).status == 200


def test_what_names_a_browser_is_not_taken_at_its_word():
    client, page = robots_and_page(FIREFOX)
    assert client.get(marked_links_in(page)[0], headers=FIREFOX).status == 200
    assert client.get(traps_in(page)[0], headers=FIREFOX).status == 403
    assert client.site.app.gate.blocked == 1


def test_where_links_are_opaque_everybody_understands_robots_txt():
    client = Client(Application(PAGE), '[marker]\nmode = "opaque"\n')
    page = client.get("/", headers=CRAWLER).body
    client.get("/robots.txt", headers=CRAWLER)
    assert client.get(traps_in(page)[0], headers=CRAWLER).status == 403
    assert client.site.app.gate.blocked == 1


def test_a_polite_program_that_reads_robots_txt_first_is_declined_and_never_blocked():
    """As Python's `urllib.robotparser` and a plain HTTP library do: no header of a browser, and no `*` understood."""
    program = {"user-agent": "Python-urllib/3.11", "accept": "*/*"}
    client = Client(Application(PAGE))
    client.get("/robots.txt", headers=program)
    page = client.get("/", headers=program).body
    assert traps_in(page)
    for link in (*traps_in(page), *marked_links_in(page)):
        assert client.get(link, headers=program).status == 403
    assert client.site.app.gate.blocked == 0
    assert client.get("/", headers=program).status == 200
