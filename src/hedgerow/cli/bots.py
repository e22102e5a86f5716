"""`hedgerow bots update|show|check`: the known bots, their published addresses, and who is one."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.options import Config, default_config
from hedgerow.core.address import parse_address
from hedgerow.core.visit import Proof
from hedgerow.errors import HedgerowError, SettingsError
from hedgerow.request.bot_verifier import BotCache
from hedgerow.request.bots import Bots, KnownBot, NameLookup, published_ranges
from hedgerow.settings import Settings, load_settings
from hedgerow.settings.checks import split_listen
from hedgerow.web.bot_ranges import PublishedRange, load_ranges, parse_ranges, save_ranges
from hedgerow.web.bots import all_bots, build_bots
from hedgerow.web.lookups.dns import DnsResolver, DnsTimeoutError, is_in
from hedgerow.web.lookups.fetch import FetchError, fetch
from hedgerow.web.paths import ranges_path

app = typer.Typer(help="Known bots: who they are, and whether somebody is one.", no_args_is_help=True)

_DAY = 86_400.0
_MOST_BYTES = 5_000_000
_WIDTH_OF_A_FILE = 160
_SCHEMES = frozenset({"http", "https"})


def _resolver(settings: Settings) -> DnsResolver:
    return DnsResolver(split_listen(settings.bots.resolver) if settings.bots.resolver else None)


@app.command()
def update(
    source: Annotated[
        str,
        typer.Argument(
            metavar="[FOLDER|URL]",
            help="A folder of lists, the address of one list, or one that ends in / with all of them below. "
            "Without: each from who publishes it.",
        ),
    ] = "",
    config: Config = None,
) -> None:
    """
    Read the addresses that bots publish into the state directory.

    Lists are known by their file names, such as googlebot.json; `hedgerow bots show` names them. What cannot be read
    stays as it was. A running Hedgerow takes the new lists at SIGHUP.
    """
    settings = load_settings(default_config(config))
    path = ranges_path(settings)
    lists = load_ranges(path)
    read, faults = 0, []
    for name, where in _sources(source):
        try:
            data = _read(where, settings)
            lists[name] = PublishedRange(parse_ranges(data), str(where), time.time())
        except FileNotFoundError:
            continue
        except (ValueError, FetchError, OSError) as error:
            faults.append(f"{name}: {getattr(error, 'strerror', None) or error}")
            continue
        read += 1
        typer.echo(f"{name}: {len(lists[name].networks)} networks")
    if read:
        save_ranges(path, lists)
        typer.echo(f"{path}: {read} lists read; send SIGHUP to a running Hedgerow")
    for fault in faults:
        typer.echo(fault, err=True)
    if not read:
        what = (
            "no list could be read" if faults else f"{source} holds none of the lists: {', '.join(published_ranges())}"
        )
        raise HedgerowError(what)
    if faults:
        raise typer.Exit(1)


def _sources(source: str) -> Iterator[tuple[str, str | Path]]:
    """The lists to be read, and where each is."""
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


def _read(where: str | Path, settings: Settings) -> bytes:
    if isinstance(where, Path):
        if where.stat().st_size > _MOST_BYTES:
            raise ValueError(f"has more than {_MOST_BYTES:,} bytes")
        return where.read_bytes()
    # Named by the operator, so it may be a host of the site's own network.
    return asyncio.run(
        fetch(where, _resolver(settings), schemes=_SCHEMES, private=True, most_bytes=_MOST_BYTES, seconds=30.0)
    )


@app.command()
def show(config: Config = None) -> None:
    """List the known bots: category, what becomes of them, and how they are verified."""
    settings = load_settings(default_config(config))
    lists = load_ranges(ranges_path(settings))
    now = time.time()
    table = Table("bot", "category", "policy", "in robots.txt", "verified by", box=None, pad_edge=False)
    for bot in all_bots(settings):
        policy = getattr(settings.bots, bot.category.replace("-", "_"))
        how = ", ".join(_ways(bot, lists, now)) or "nothing: it cannot be verified"
        table.add_row(*map(escape, (bot.name, bot.category, policy, bot.robots or "-", how)))
    Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False).print(table)


def _ways(bot: KnownBot, lists: dict[str, PublishedRange], now: float) -> Iterator[str]:
    if bot.domains:
        yield "names in " + " ".join(bot.domains)
    for name in bot.ranges:
        listed = lists.get(name)
        age = f"{(now - listed.read_at) / _DAY:.0f} days old" if listed else "not read"
        yield f"{name} ({age})"
    if bot.signer:
        yield f"signatures of {bot.signer}"


@app.command()
def check(
    address: Annotated[str, typer.Argument(metavar="ADDRESS")],
    user_agent: Annotated[
        str, typer.Option("--user-agent", "-A", metavar="TEXT", help="What it calls itself; without: every bot.")
    ] = "",
    config: Config = None,
) -> None:
    """Say whether an address is a known bot's: from the published lists, and by its name."""
    settings = load_settings(default_config(config))
    plain = parse_address(address)
    if plain is None:
        raise SettingsError([f"{address} is not an address"])
    known = BotCache()
    bots = build_bots(settings, known.proofs)
    name = bots.verified(plain, user_agent)
    if name:
        typer.echo(f"{plain} is {name}, by the networks in the settings")
        return
    claimed = bots.claimed(user_agent) if user_agent else None
    if user_agent and claimed is None:
        typer.echo("this user agent names no known bot")
        return
    asked = [claimed] if claimed else [bot for bot in all_bots(settings) if bot.agent]
    proofs = asyncio.run(_proofs(plain, asked, bots, known, settings))
    for bot, proof in proofs:
        if proof == "verified" or claimed:
            policy = getattr(settings.bots, bot.category.replace("-", "_"))
            typer.echo(f"{plain} as {bot.name} ({bot.category}): {_WORDS[proof]}; policy: {policy}")
    if not claimed and all(proof != "verified" for _, proof in proofs):
        typer.echo(f"{plain} is none of the known bots, as far as can be told")


_WORDS: dict[Proof, str] = {
    "verified": "verified",
    "false": "a false claim",
    "unprovable": "cannot be verified (no list was read, or a failed check proves nothing)",
    "pending": "no name server answers; nobody can tell now",
}


async def _proofs(
    address: str, asked: list[KnownBot], bots: Bots, known: BotCache, settings: Settings
) -> list[tuple[KnownBot, Proof]]:
    resolver = _resolver(settings)
    silent = False
    names: tuple[str, ...] | None = None

    class Once:
        """The names of the address are asked for once, however many bots there are."""

        async def names(self, address: str) -> tuple[str, ...]:
            nonlocal names
            if names is None:
                names = tuple(await resolver.names(address))
            return names

        async def addresses(self, name: str, version: int) -> tuple[str, ...]:
            return tuple(await resolver.addresses(name, version))

    for bot in asked:
        if bot.domains and not silent:
            try:
                true = await is_in(address, bot.domains, Once())
                known.proofs.learn(NameLookup(bot, address, time.time()), true=true)
            except DnsTimeoutError:
                silent = True
    if silent:
        known.proofs.ask = lambda _: None
    return [(bot, bots.prove(bot, address, time.time())) for bot in asked]
