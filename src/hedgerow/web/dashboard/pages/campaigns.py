"""*Campaigns*: visitors that belong together, who used whose links, when they came, and changes for all of them."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Annotated

import msgspec
from msgspec import Meta

from hedgerow.core.address import parse_address
from hedgerow.core.decision import Block, Campaign, Evidence
from hedgerow.errors import StoreError
from hedgerow.lists.times import parse_duration
from hedgerow.markers.token import visitor_digest
from hedgerow.web.dashboard.page import Action, Context, Done, Duration, Page, Problem
from hedgerow.web.dashboard.tables import Column, TablePage, TableParameters, tabulate
from hedgerow.web.dashboard.visitor_search import visits_of
from hedgerow.web.siblings import open_orders

_COLUMNS = (
    Column("id", "Campaign"),
    Column("kind", "Kind"),
    Column("members", "Members", is_number=True),
    Column("networks", "Networks", is_number=True),
    Column("pages", "Pages", is_number=True),
    Column("since", "Since"),
    Column("seen", "Last seen"),
    Column("text", "Why"),
)
_MAX_MEMBERS = 40
"""Members whose visits are read from the ledger for the pictures."""
_MAX_VISITS = 300
_LINES = 6
_STEPS = 48
_WIDTH, _HEIGHT, _RADIUS = 640, 180, 150
_PREFIXES = {4: 24, 6: 48}
_SHORT_DIGEST = 6
_MAX_OTHERS, _MIN_LINKS = 8, 2
"""Visitors in the picture that are no members, and the links that were issued to each of them."""
_MAX_NAMES = 20_000

Visits = dict[str, list[tuple[float, bytes]]]
"""The time of each visit, and to whom its link was issued, by member."""


class CampaignParameters(TableParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: Annotated[str, Meta(max_length=100, description="The campaign to show in detail.")] = ""


class CampaignRow(msgspec.Struct, frozen=True):
    id: str
    kind: str
    members: int
    networks: int
    pages: int
    since: float
    seen: float
    text: str


class Node(msgspec.Struct, frozen=True):
    """A visitor in the picture of shared links: a member, or another one to whom such links were issued."""

    member: str
    x: float
    y: float
    visits: int
    is_member: bool


class Edge(msgspec.Struct, frozen=True):
    """Links that were issued to *issuer* and used by *user*."""

    issuer: str
    user: str
    links: int
    x1: float
    y1: float
    x2: float
    y2: float


class Line(msgspec.Struct, frozen=True):
    """The visits of a member over time: *points* of a polyline, *visits* in all."""

    member: str
    visits: int
    points: str


class Network(msgspec.Struct, frozen=True):
    network: str
    members: int


class CampaignDetail(msgspec.Struct, frozen=True):
    """
    One campaign. *members* are all of them; the pictures show those with the most visits in the ledger.

    *start* and *end* are those of the lines; *peak* is the largest number of visits in one step of them.
    """

    id: str
    text: str
    members: list[str]
    networks: list[Network]
    nodes: list[Node]
    edges: list[Edge]
    lines: list[Line]
    start: float
    end: float
    peak: int


class Campaigns(TablePage[CampaignRow], frozen=True):
    detail: CampaignDetail | None = None


class BlockAll(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """*duration* is like `30m`, `12h` or `7d`."""

    id: Annotated[str, Meta(min_length=1, max_length=100)]
    duration: Duration = "1d"
    reason: Annotated[str, Meta(max_length=500)] = ""


class ForgiveAll(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=100)]


def query(context: Context, parameters: CampaignParameters) -> Campaigns:
    found = list(reversed(context.site.campaigns()))
    rows = [
        CampaignRow(
            one.id, one.kind, len(one.members), one.networks or len(_networks(one.members)), round(one.pages),
            one.since, one.seen, one.text,
        )
        for one in found
    ]  # fmt: skip
    table = tabulate(rows, _COLUMNS, parameters)
    detail = _detail(context, _find(context, parameters.id)) if parameters.id else None
    return Campaigns(table.rows, table.total, table.page, table.size, detail)


def _find(context: Context, identifier: str) -> Campaign:
    campaign = next((one for one in context.site.campaigns() if one.id == identifier), None)
    if campaign is None:
        raise Problem(404, f"There is no campaign {identifier}. It may be over.")
    return campaign


def _networks(members: Sequence[str]) -> Counter[str]:
    """Count members by network: IPv4 /24, IPv6 /48. Members without an address are left out."""
    counts = Counter[str]()
    for member in members:
        address = parse_address(member.partition("/")[0])
        if address is not None:
            version = 6 if ":" in address else 4
            counts[str(ip_network(f"{address}/{_PREFIXES[version]}", strict=False))] += 1
    return counts


def _detail(context: Context, campaign: Campaign) -> CampaignDetail:
    visits = _visits(context, campaign)
    shown = sorted(visits, key=lambda member: -len(visits[member]))
    start = min((at for rows in visits.values() for at, _ in rows), default=campaign.since)
    end = max((at for rows in visits.values() for at, _ in rows), default=campaign.seen)
    counts = {member: _steps([at for at, _ in visits[member]], start, end) for member in shown[:_LINES]}
    peak = max((max(steps) for steps in counts.values()), default=0)
    issuers = _issuers(context, shown, visits)
    nodes = _nodes(shown, [name for name in issuers.values() if name not in visits], visits)
    return CampaignDetail(
        id=campaign.id,
        text=campaign.text,
        members=list(campaign.members),
        networks=[Network(*pair) for pair in _networks(campaign.members).most_common()],
        nodes=nodes,
        edges=_edges(nodes, issuers, visits),
        lines=[Line(member, len(visits[member]), _polyline(steps, peak)) for member, steps in counts.items()],
        start=start,
        end=end,
        peak=peak,
    )


def _visits(context: Context, campaign: Campaign) -> Visits:
    """Return time and issuer of the link of each visit, by member, of members with visits in the ledger."""
    found: Visits = {}
    try:
        for member in campaign.members[:_MAX_MEMBERS]:
            visits = [visit for visit, _ in visits_of(context, member, _MAX_VISITS)]
            if visits:
                found[member] = [(one.at, one.marker.issued_to if one.marker else b"") for one in visits]
    except StoreError:
        # The table of campaigns does not need the ledger; the banner says that it fails.
        return {}
    return found


def _steps(times: Sequence[float], start: float, end: float) -> list[int]:
    width = max(1.0, end - start) / _STEPS
    counts = [0] * _STEPS
    for at in times:
        counts[min(_STEPS - 1, int((at - start) / width))] += 1
    return counts


def _polyline(steps: Sequence[int], peak: int) -> str:
    """
    Return the points of a line in a picture of 640 by 180.

    >>> _polyline([0, 2], 2)
    '0.0,180.0 640.0,0.0'
    """
    across = _WIDTH / max(1, len(steps) - 1)
    return " ".join(f"{n * across:.1f},{_HEIGHT - count / max(1, peak) * _HEIGHT:.1f}" for n, count in enumerate(steps))


def _nodes(members: Sequence[str], others: Sequence[str], visits: Visits) -> list[Node]:
    """Place visitors on a circle."""
    turn = 2 * math.pi / max(1, len(members) + len(others))
    return [
        Node(
            name, round(_RADIUS * math.cos(number * turn), 1), round(_RADIUS * math.sin(number * turn), 1),
            len(visits.get(name, ())), number < len(members),
        )
        for number, name in enumerate([*members, *others])
    ]  # fmt: skip


def _issuers(context: Context, members: Sequence[str], visits: Visits) -> dict[bytes, str]:
    """Return the visitors to whom the links were issued, members or not, by the beginning of their digest."""
    # Marks in clean mode have the beginning of a digest.
    known = {visitor_digest(name)[:_SHORT_DIGEST]: name for name in members}
    used = Counter(issuer[:_SHORT_DIGEST] for rows in visits.values() for _, issuer in rows if issuer)
    others = [one for one, links in used.most_common(_MAX_OTHERS) if one not in known and links >= _MIN_LINKS]
    if not others:
        return known
    names = [*context.snapshot.blocks, *context.snapshot.scores][:_MAX_NAMES]
    named = {visitor_digest(name)[:_SHORT_DIGEST]: name for name in names}
    return known | {one: named.get(one, f"another visitor ({one.hex()[:4]})") for one in others}


def _edges(nodes: Sequence[Node], issuers: dict[bytes, str], visits: Visits) -> list[Edge]:
    used = Counter[tuple[str, str]]()
    for user, rows in visits.items():
        for _, issuer in rows:
            found = issuers.get(issuer[:_SHORT_DIGEST])
            if found is not None and found != user:
                used[found, user] += 1
    at = {node.member: node for node in nodes}
    return [
        Edge(issuer, user, links, at[issuer].x, at[issuer].y, at[user].x, at[user].y)
        for (issuer, user), links in used.most_common()
    ]


def block_all(context: Context, request: BlockAll) -> Done:
    campaign, now = _find(context, request.id), time.time()
    until = now + parse_duration(request.duration)
    evidence = Evidence("administrator", "administrator", 1.0, request.reason or f"Campaign {campaign.id}.")
    with open_orders(context.site) as order:
        for member in campaign.members:
            prefix = member if parse_address(member.partition("/")[0]) else ""
            order(member, Block(member, prefix, now, until, "refuse", evidence))
    return Done(
        f"{len(campaign.members):,} members of {campaign.id} are blocked for {request.duration}.", campaign.id,
        f"/dashboard/campaigns?id={campaign.id}",
    )  # fmt: skip


def forgive_all(context: Context, request: ForgiveAll) -> Done:
    campaign = _find(context, request.id)
    with open_orders(context.site) as order:
        forgiven = [order(member, None) for member in campaign.members]
    if None in forgiven:
        raise Problem(503, "Redis does not answer. Try again when it does.")
    had = sum(map(bool, forgiven))
    said = f"{had:,} of {len(forgiven):,} members of {campaign.id} had a score or a block, and are forgiven."
    return Done(said, campaign.id, f"/dashboard/campaigns?id={campaign.id}")


PAGE = Page(
    name="campaigns",
    title="Campaigns",
    summary="Visitors that belong together; with an id, the members of one campaign and the links they share.",
    query=query,
    result=Campaigns,
    parameters=CampaignParameters,
    columns=_COLUMNS,
    actions=(
        Action("block", "Block all members of a campaign.", BlockAll, block_all),
        Action("forgive", "Forgive all members of a campaign.", ForgiveAll, forgive_all),
    ),
)
