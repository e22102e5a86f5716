"""
`hedgerow visitors export` and `forget`: everything that is stored about one visitor, and its deletion.

They use the files and databases of a service also while it runs: the API has no such functions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any

import msgspec
import typer
from typer import Option

from hedgerow.challenge.prices import is_price_key
from hedgerow.cli.main import Config
from hedgerow.cli.output import format_time, print_json, write_json
from hedgerow.cli.service import Directory, SiteName, find_site
from hedgerow.cli.visitor_store import Visitor, open_visitor_stores
from hedgerow.core.address import parse_address
from hedgerow.core.state import prefix_key
from hedgerow.ledger.erasure import delete_visits
from hedgerow.ledger.sqlite import COLUMNS
from hedgerow.lists.model import OWN_AUTHOR, Listing
from hedgerow.lists.sql_store import ListFilter
from hedgerow.logs.formats import readable
from hedgerow.settings import Settings
from hedgerow.web.audit import AuditEntry, AuditLog
from hedgerow.web.ledger_access import has_ledger, ledger_of, open_ledger, stored_key
from hedgerow.web.paths import state_directory
from hedgerow.web.stores import build_list_store

_WEEK = "within a week of their last activity"


def export(
    visitor: Visitor,
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
    output: Annotated[str, Option("--output", "-o", metavar="FILE", help="File to write; -: standard output.")] = "-",
) -> None:
    """
    Write everything that is stored about a visitor as JSON.

    Visits, score, block, campaigns, the last session that the watch has stored, lists, audit log.
    """
    settings = find_site(config, directory, site, place="ledger", changes=False, quiet=True)
    found = _stored(settings, visitor, site)
    if output == "-":
        print_json(found)
    else:
        write_json(output, found)


def forget(
    visitor: Visitor,
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
    lists: Annotated[bool, Option("--lists", help="Also remove the entries of the visitor from the lists.")] = False,
) -> None:
    """Delete what is stored about a visitor, and say what was deleted and what stays."""
    settings = find_site(config, directory, site, place="state", has_started=True)
    with open_visitor_stores(settings, site, by_files=True) as stores:
        key = stores.key_of(visitor)
        names = _stored_names(settings, key, visitor)
        deleted = delete_visits(ledger_of(settings), names) if has_ledger(settings) else 0
        typer.echo(f"{deleted:,} visits are deleted from the ledger")
        known = [store.read(time.time()) for store in stores]
        keys = [key, prefix_key(key), *_prices_of(key, known)]
        removed = sum(store.order(one, None) for store in stores for one in keys)
        campaigns = [c for store in stores for c in store.campaigns() if key in c.members]
        is_watched = sum(store.delete_session(key) for store in stores) > 0
    typer.echo(f"{removed} scores and blocks are deleted")
    if is_watched:
        typer.echo("what the watch has stored about its last session is deleted; a running one forgets it within a day")
    for entry in _entries(settings, key, visitor):
        if lists or entry.author == OWN_AUTHOR:
            build_list_store(settings).remove(entry.list, entry.subject)
            typer.echo(f"{readable(entry.subject)} is removed from the {entry.list} list")
        else:
            typer.echo(f"{readable(entry.subject)} stays on the {entry.list} list; use --lists to remove it")
    if changes := _changes(settings, key, visitor):
        typer.echo(f"changes in the audit log, kept for {settings.privacy.audit_days:g} days: {len(changes):,}")
    if campaigns:
        typer.echo(f"it stays a member of {', '.join(c.id for c in campaigns)}; campaigns are deleted {_WEEK}")
    if settings.privacy.addresses == "truncated" and parse_address(key.partition("/")[0]):
        typer.echo(f"visits with a truncated address name nobody; they stay for {settings.ledger.keep_days:g} days")
    spool = state_directory(settings) / "ledger.spool"
    if settings.ledger.url and any(spool.glob("*.batch")):
        typer.echo(f"visits that wait for PostgreSQL in {spool} stay; run this again when it answers", err=True)


def _stored_names(settings: Settings, key: str, visitor: str) -> list[str]:
    """Return the keys and addresses by which the ledger knows the visitor: as they are, and hashed."""
    names = [key]
    if (address := parse_address(visitor)) is not None:
        names.append(address)
    if settings.privacy.addresses == "hashed":
        names += [stored_key(settings, name) for name in names]
    return list(dict.fromkeys(names))


def _prices_of(key: str, known: list[Any]) -> list[str]:
    """Return the keys under which the price of an address is stored."""
    return [
        other for _, scores in known for other, _ in scores if is_price_key(other) and other.partition(":")[2] == key
    ]


def _entries(settings: Settings, key: str, visitor: str) -> list[Listing]:
    """Return the entries of the lists for exactly this visitor."""
    if not settings.lists.enabled:
        return []
    subjects = {key, parse_address(visitor) or visitor}
    store = build_list_store(settings)
    return [entry for subject in sorted(subjects) for entry in store.read(ListFilter(subject=subject))]


def _changes(settings: Settings, key: str, visitor: str) -> Sequence[AuditEntry]:
    """Return what operators changed about the visitor."""
    return AuditLog(settings).about([key, prefix_key(key), parse_address(visitor) or visitor])


def _stored(settings: Settings, visitor: str, site: str) -> dict[str, Any]:
    visits: list[dict[str, Any]] = []
    with open_visitor_stores(settings, site, by_files=True) as stores:
        key = stores.key_of(visitor)
        names = _stored_names(settings, key, visitor)
        if has_ledger(settings):
            with closing(open_ledger(settings)) as ledger:
                visits = [_visit(row) for row in ledger.visits_of(names, COLUMNS)]
        read = [(store, store.read(time.time())) for store in stores]
        keys = {key, prefix_key(key), *_prices_of(key, [one for _, one in read])}
        blocks = [block for _, (found, _) in read for block in found if block.key in keys]
        scores = [(one, score) for _, (_, found) in read for one, score in found if one in keys]
        campaigns = [c for store, _ in read for c in store.campaigns() if key in c.members]
        sessions = [session for store, _ in read if (session := store.session(key)) is not None]
    return {
        "visitor": key,
        "made": format_time(time.time()),
        "visits": visits,
        "blocks": msgspec.to_builtins(blocks),
        "scores": [{"key": one, **msgspec.to_builtins(score)} for one, score in scores],
        "campaigns": [{"id": c.id, "since": c.since, "seen": c.seen, "text": c.text} for c in campaigns],
        "sessions": msgspec.to_builtins(sessions),
        "lists": msgspec.to_builtins(_entries(settings, key, visitor)),
        "audit": msgspec.to_builtins(_changes(settings, key, visitor)),
    }


def _visit(row: Any) -> dict[str, Any]:
    """Return a row with its names. Digests are in hexadecimal, and the evidence is not text in text."""
    values = (value.hex() if isinstance(value, bytes | memoryview) else value for value in row)
    named = dict(zip(COLUMNS, values, strict=True))
    return {**named, "evidence": msgspec.json.decode(named["evidence"])}
