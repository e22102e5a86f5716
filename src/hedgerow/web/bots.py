"""
The known bots of a site, and the address ranges that their operators publish, stored in the state directory.

Two formats of ranges are read: any JSON that contains networks as strings, such as the `prefixes` of Google, Bing and
OpenAI; and plain text with a network or an address on each line. This module imports little, because `hedgerow report`
uses it too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path

import msgspec

from hedgerow.core.address import Networks
from hedgerow.corrupt_files import set_aside
from hedgerow.errors import DECODE_ERRORS, StoreError
from hedgerow.file_owner import make_directory
from hedgerow.request.bots import CATEGORIES, BotPolicy, BotProofs, Bots, Category, KnownBot, Ranges, known_bots
from hedgerow.settings.load import Settings
from hedgerow.web.paths import ranges_path, temporary_file

_MAX_NETWORKS = 100_000
_WIDEST = {4: 8, 6: 19}
"""The shortest prefixes that are accepted: a wider range would verify half the Internet."""
_MAX_QUOTED = 60
_DAY = 86_400.0


def all_bots(settings: Settings) -> tuple[KnownBot, ...]:
    """Return the known bots and the signers of the settings; none if bots are switched off."""
    if not settings.bots.enabled:
        return ()
    signers = (KnownBot(one.name, one.category, signer=one.host.lower()) for one in settings.bots.signers)
    return (*known_bots(), *signers)


def refused_bots(settings: Settings) -> list[KnownBot]:
    """Return the bots whose category the settings refuse."""
    policies = _policies(settings)
    return [bot for bot in all_bots(settings) if policies[bot.category] == "refuse"]


def licensed_bots(settings: Settings) -> list[KnownBot]:
    """Return the bots whose category needs a license."""
    policies = _policies(settings)
    return [bot for bot in all_bots(settings) if policies[bot.category] == "license"]


def build_bots(settings: Settings, proofs: BotProofs) -> Bots:
    """Build the known bots, with the address ranges that `hedgerow bots update` has stored."""
    ranges = as_ranges(load_ranges(ranges_path(settings))) if settings.bots.enabled else {}
    return Bots(
        settings.identity.bots, known=all_bots(settings), ranges=ranges, policies=_policies(settings), proofs=proofs
    )


def _policies(settings: Settings) -> dict[Category, BotPolicy]:
    return {name: getattr(settings.bots, name.replace("-", "_")) for name in CATEGORIES}


class PublishedRange(msgspec.Struct, frozen=True):
    """One list: its networks, where it was read from, and when."""

    networks: tuple[str, ...]
    source: str
    read_at: float


def parse_ranges(data: bytes) -> tuple[str, ...]:
    """Return the networks in a published list; ValueError with a sentence if it is none."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not text") from None
    if text.lstrip()[:1] in {"{", "["}:
        found = list(_networks_in_json(text))
    else:
        found = list(filter(None, (line.partition("#")[0].strip() for line in text.splitlines())))
    if not found:
        raise ValueError("names no networks")
    if len(found) > _MAX_NETWORKS:
        raise ValueError(f"names more than {_MAX_NETWORKS:,} networks")
    return tuple(dict.fromkeys(map(_checked, found)))


def _networks_in_json(text: str) -> Iterator[str]:
    try:
        pending: list[object] = [msgspec.json.decode(text)]
    except DECODE_ERRORS as error:
        raise ValueError(f"is not JSON: {error}") from None
    while pending:
        one = pending.pop()
        if isinstance(one, dict | list):
            pending.extend(reversed(list(one.values() if isinstance(one, dict) else one)))
        elif isinstance(one, str):
            # Strings that are no networks are times and names.
            with contextlib.suppress(ValueError):
                ip_network(one.strip(), strict=False)
                yield one


def _checked(text: str) -> str:
    try:
        network = ip_network(text.strip(), strict=False)
    except ValueError:
        raise ValueError(f"{text[:_MAX_QUOTED]!r} is no network") from None
    if network.prefixlen < _WIDEST[network.version]:
        raise ValueError(f"{network} is too wide to be a bot's")
    return str(network)


def load_ranges(path: Path) -> dict[str, PublishedRange]:
    """Return the lists in the file *path*, by name; none without a file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None
    try:
        return msgspec.json.decode(data, type=dict[str, PublishedRange])
    except DECODE_ERRORS as error:
        set_aside(path, "the file of bots' addresses", f"{error}; run hedgerow bots update")
        return {}


def save_ranges(path: Path, lists: Mapping[str, PublishedRange]) -> None:
    """Replace the contents of the file *path* by *lists*, in one step."""
    try:
        make_directory(path.parent)
        with temporary_file(path, msgspec.json.format(msgspec.json.encode(lists))) as temporary:
            temporary.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None


def as_ranges(lists: Mapping[str, PublishedRange]) -> dict[str, Ranges]:
    return {name: Ranges(Networks(listed.networks), listed.read_at) for name, listed in lists.items()}


def describe_verification(bot: KnownBot, ranges: Mapping[str, PublishedRange], now: float) -> Iterator[str]:
    """Yield the ways by which a bot is verified, with the age of its published addresses."""
    if bot.domains:
        yield "names in " + " ".join(bot.domains)
    for name in bot.ranges:
        listed = ranges.get(name)
        age = f"{(now - listed.read_at) / _DAY:.0f} days old" if listed else "not read"
        yield f"{name} ({age})"
    if bot.signer:
        yield f"signatures of {bot.signer}"
