"""Campaigns of rotating addresses: one item with size, networks and rate, and people are not in it."""

from __future__ import annotations

import msgspec

from driving import START
from hedgerow.core.decision import Campaign, Decision, Evidence
from hedgerow.core.visit import Visit
from hedgerow.watch.rotating_addresses import RotatingAddresses

from .sharing_site import SharedSite

ASKED = Decision("challenge", (Evidence("rotation", "handed-on", 1.0, "Handed on."),))


def visit(number: int, at: float, **more) -> Visit:
    address = f"10.{number // 250}.{number % 250}.1"
    return Visit(at, address, **{"visitor": address, "prefix": address, "method": "GET", "target": "/", **more})


def test_addresses_within_an_hour_are_one_campaign_with_size_networks_and_rate():
    rotating = RotatingAddresses()
    found = [rotating.see(visit(n, START + 0.5 * n), ASKED) for n in range(1_200)]
    assert [n for n, one in enumerate(found) if one is not None] == [9]
    (campaign,) = rotating.campaigns()
    assert (campaign.kind, len(campaign.members), campaign.networks, round(campaign.rate)) == (
        "rotating", 1_200, 1_200, 120,
    )  # fmt: skip
    assert campaign.text.startswith("1,200 addresses of 1,200 networks read the site one after the other, 120 requests")


def test_after_a_pause_another_campaign_begins():
    rotating = RotatingAddresses()
    for start in (START, START + 10_000):
        for n in range(20):
            rotating.see(visit(n, start + n), ASKED)
    assert len({campaign.id for campaign in rotating.campaigns()}) == 2


def test_a_few_visitors_are_no_campaign_and_who_obtains_a_clearance_is_no_member():
    rotating = RotatingAddresses()
    for n in range(30):
        rotating.see(visit(n, START + n), ASKED)
        rotating.see(visit(n, START + n, visitor="clearance:ab"), Decision("pass"))
        rotating.see(visit(n, START + n), Decision("pass"))
    assert rotating.campaigns() == []


def test_the_members_are_bounded():
    rotating = RotatingAddresses()
    for n in range(10_500):
        rotating.see(visit(n, START + n / 10), ASKED)
    (campaign,) = rotating.campaigns()
    assert len(campaign.members) == 10_000
    assert campaign.text.startswith("more than 10,000 addresses")


def test_a_campaign_survives_a_restart_of_the_watch():
    before = SharedSite()
    _, links = before.get("10.0.0.1")
    for n in range(40):
        before.get(f"10.9.{n}.1", links[n % 20])
    (campaign,) = [one for one in before.campaigns if one.kind == "rotating"]
    stored = msgspec.json.decode(msgspec.json.encode(campaign), type=Campaign)
    after = SharedSite()
    after.watch.rotating.restore([stored])
    assert [one.members for one in after.campaigns] == [campaign.members]
    assert before.watch.found["rotating"] == 1
