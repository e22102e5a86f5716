"""`hedgerow bots update|show|check`: known bots, their published addresses, and whether an address is a bot's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table
from typer import Argument, Option

from hedgerow.cli.main import Config
from hedgerow.cli.output import console
from hedgerow.cli.running_service import reload_running
from hedgerow.cli.service import Directory, SiteName, find_site
from hedgerow.core.address import parse_address
from hedgerow.core.visit import Proof
from hedgerow.errors import HedgerowError, SettingsError
from hedgerow.request.bot_cache import BotCache
from hedgerow.request.bots import Bots, KnownBot, NameLookup, published_ranges
from hedgerow.settings import Settings, load_settings
from hedgerow.settings.checks import split_listen
from hedgerow.web.audit import audit_command
from hedgerow.web.bots import (
    PublishedRange,
    all_bots,
    build_bots,
    describe_verification,
    load_ranges,
    parse_ranges,
    save_ranges,
)
from hedgerow.web.lookups.dns import DnsResolver, DnsTimeoutError, is_in
from hedgerow.web.lookups.fetch import FetchError, fetch
from hedgerow.web.paths import ranges_path

app = typer.Typer()

_MAX_BYTES = 5_000_000

_SCHEMES = frozenset({"http", "https"})


def _name_server(settings: Settings) -> tuple[str, int] | None:
    return split_listen(settings.bots.resolver) if settings.bots.resolver else None


@app.command()
def update(
    source: Annotated[
        str,
        Argument(
            metavar="[FOLDER|URL]",
            help="A folder of lists, the URL of one list, or a URL that ends in / for all of them. "
            "Default: each list from its publisher.",
        ),
    ] = "",
    config: Config = None,
    directory: Directory = None,
    site: SiteName = "",
) -> None:
    """
    Read the addresses that bots publish into the state directory.

    Lists have fixed file names, such as googlebot.json; `hedgerow bots show` names them. A list that cannot be read
    keeps its previous contents. A running Hedgerow with an admin listener uses the new lists at once.
    """
    settings = find_site(config, directory, site)
    path = ranges_path(settings)
    lists = load_ranges(path)
    read, faults = 0, []
    for name, location in _sources(source):
        try:
            data = _read(location, settings)
            lists[name] = PublishedRange(parse_ranges(data), str(location), time.time())
        except FileNotFoundError:
            continue
        except (ValueError, FetchError, OSError) as error:
            faults.append(f"{name}: {getattr(error, 'strerror', None) or error}")
            continue
        read += 1
        typer.echo(f"{name}: {len(lists[name].networks)} networks")
    if read:
        save_ranges(path, lists)
        audit_command(settings, "bots.update", source or "the publishers", f"{read} lists")
        typer.echo(f"{path}: {read} lists read; {reload_running(settings)}")
    for fault in faults:
        typer.echo(fault, err=True)
    if not read:
        missing = f"{source} holds none of the lists: {', '.join(published_ranges())}"
        raise HedgerowError("no list could be read" if faults else missing)
    if faults:
        raise typer.Exit(1)


def _sources(source: str) -> Iterator[tuple[str, str | Path]]:
    """Yield the name and location of each list to read."""
    known = published_ranges()
    if not source:
        yield from known.items()
    elif "://" not in source:
        folder = Path(source)
        if not folder.is_dir():
            raise HedgerowError(f"{source} is not a folder, nor an address that starts with http:// or https://")
        yield from ((name, folder / name) for name in known)
    elif source.endswith("/"):
        yield from ((name, source + name) for name in known)
    else:
        name = source.partition("?")[0].rpartition("/")[2]
        if name not in known:
            raise HedgerowError(f"{name} is none of the lists: {', '.join(known)}")
        yield name, source


def _read(location: str | Path, settings: Settings) -> bytes:
    if isinstance(location, Path):
        if location.stat().st_size > _MAX_BYTES:
            raise ValueError(f"has more than {_MAX_BYTES:,} bytes")
        return location.read_bytes()
    # The operator names the location, so it may be in a private network.
    resolver = DnsResolver(_name_server(settings))
    return asyncio.run(fetch(location, resolver, schemes=_SCHEMES, private=True, max_bytes=_MAX_BYTES, seconds=30.0))


@app.command()
def show(config: Config = None, directory: Directory = None, site: SiteName = "") -> None:
    """List the known bots: category, policy, and how they are verified."""
    settings = find_site(config, directory, site, changes=False)
    lists = load_ranges(ranges_path(settings))
    now = time.time()
    table = Table("bot", "category", "policy", "in robots.txt", "verified by", box=None, pad_edge=False)
    for bot in all_bots(settings):
        policy = getattr(settings.bots, bot.category.replace("-", "_"))
        methods = ", ".join(describe_verification(bot, lists, now)) or "nothing: it cannot be verified"
        table.add_row(*map(escape, (bot.name, bot.category, policy, bot.robots or "-", methods)))
    console().print(table)


@app.command()
def check(
    address: Annotated[str, Argument(metavar="ADDRESS")],
    user_agent: Annotated[
        str, Option("--user-agent", "-A", metavar="TEXT", help="User agent to check; default: every bot.")
    ] = "",
    config: Config = None,
) -> None:
    """Check whether an address belongs to a known bot, by the published lists and by DNS."""
    settings = load_settings(config)
    plain = parse_address(address)
    if plain is None:
        raise SettingsError([f"{address} is not an address"])
    cache = BotCache()
    bots = build_bots(settings, cache.proofs)
    name = bots.verified(plain, user_agent)
    if name:
        typer.echo(f"{plain} is {name}, according to the networks in the settings")
        return
    claimed = bots.claimed(user_agent) if user_agent else None
    if user_agent and claimed is None:
        typer.echo("this user agent names no known bot")
        return
    candidates = [claimed] if claimed else [bot for bot in all_bots(settings) if bot.agent]
    proofs = asyncio.run(_proofs(plain, candidates, bots, cache, settings))
    for bot, proof in proofs:
        if proof == "verified" or claimed:
            policy = getattr(settings.bots, bot.category.replace("-", "_"))
            typer.echo(f"{plain} as {bot.name} ({bot.category}): {_WORDS[proof]}; policy: {policy}")
    if not claimed and all(proof != "verified" for _, proof in proofs):
        typer.echo(f"{plain} is not verified as any known bot")


_WORDS: dict[Proof, str] = {
    "verified": "verified",
    "false": "a false claim",
    "unprovable": "cannot be verified (no list was read, or a failed check proves nothing)",
    "pending": "cannot be verified now, because no name server responds",
}


class _CachingResolver(DnsResolver):
    """Looks the names of one address up once for all bots."""

    _names: Sequence[str] | None = None

    async def names(self, address: str) -> Sequence[str]:
        if self._names is None:
            self._names = await super().names(address)
        return self._names


async def _proofs(
    address: str, candidates: list[KnownBot], bots: Bots, cache: BotCache, settings: Settings
) -> list[tuple[KnownBot, Proof]]:
    resolver = _CachingResolver(_name_server(settings))
    try:
        for bot in candidates:
            if bot.domains:
                is_owner = await is_in(address, bot.domains, resolver)
                cache.proofs.learn(NameLookup(bot, address, time.time()), true=is_owner)
    except DnsTimeoutError:
        cache.proofs.ask = lambda _: None
    return [(bot, bots.prove(bot, address, time.time())) for bot in candidates]
