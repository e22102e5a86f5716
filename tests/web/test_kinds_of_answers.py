"""
What a visit counts as is settled by its answer, and who is declined without being blocked.

A program or a script over a limit, and a prefetch. A browser is challenged before it is blocked.
"""

from __future__ import annotations

from driving import OFF, Application, Client

JSON = (b"content-type", b"application/json")


def test_answers_that_are_no_pages_do_not_count_as_pages():
    """An API client, or git, asks a hundred addresses without a suffix in a second and is not stopped."""
    client = Client(Application(b"{}", headers=[JSON]))
    for number in range(200):
        client.clock.now += 0.01
        assert client.get(f"/objects/{number}").status == 200
    assert {entry.visit.kind for entry in client.entries} == {"asset"}


def test_a_page_in_xml_is_a_page():
    """Some sites give their pages as XML to who asks for that."""
    client = Client(Application(b"<html/>", headers=[(b"content-type", b"Application/XHTML+xml; charset=utf-8")]), OFF)
    assert [client.get(f"/page/{number}").status for number in range(60)] == [200] * 40 + [403] * 20


def test_pages_at_the_same_speed_are_stopped():
    """The same with pages: forty pass, and no more."""
    client = Client(text=OFF)
    statuses = []
    for number in range(60):
        client.clock.now += 0.01
        statuses.append(client.get(f"/page/{number}").status)
    assert statuses == [200] * 40 + [403] * 20
    assert {entry.decision.action for entry in client.entries[40:]} == {"challenge"}
    assert client.site.stores.state.blocks(client.clock.now) == []


def test_who_wants_no_html_is_no_reader_of_pages():
    """A client that accepts JSON alone makes calls: four hundred of them in three seconds, not forty in one."""
    client = Client(Application(b"not found", status=404, headers=[JSON]))
    statuses = []
    for number in range(410):
        client.clock.now += 0.001
        statuses.append(client.get(f"/item/{number}", headers={"accept": "application/json"}).status)
    assert statuses == [404] * 400 + [429] * 10


def test_too_many_prefetches_are_declined_and_nobody_is_blocked():
    """A browser told to fetch sixty pages ahead gets thirty, goes without the others, and reads on."""
    client = Client()
    statuses = []
    for number in range(60):
        client.clock.now += 0.01
        answer = client.get(f"/page/{number}", headers={"sec-purpose": "prefetch"})
        statuses.append(answer.status)
    assert statuses == [200] * 30 + [503] * 30
    assert answer.header("hedgerow-decision").startswith(b"refuse; code=prefetch; ref=")
    assert answer.header("retry-after") == b"1"
    assert client.get("/page/1").status == 200
    assert client.site.stores.state.blocks(client.clock.now) == []
    client.clock.now += 61
    assert client.get("/page/61", headers={"sec-purpose": "prefetch"}).status == 200
