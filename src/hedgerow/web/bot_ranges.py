"""
Published ranges: the addresses of bots, as who runs them publishes them, kept in one file of the state directory.

Two forms are read: JSON with `prefixes` (Google, Bing, OpenAI and most others), or any JSON that holds networks as
text; and plain lists, a network or an address on each line. The file is written as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path

import msgspec

from hedgerow.core.address import Networks
from hedgerow.errors import StoreError
from hedgerow.request.bots import Ranges

_MOST_NETWORKS = 100_000
# Nobody's crawler has more: such a list would verify half the world.
_WIDEST = {4: 8, 6: 19}
_MOST_SHOWN = 60


class PublishedRange(msgspec.Struct, frozen=True):
    """One list: its networks, where it was read from, and when."""

    networks: tuple[str, ...]
    source: str
    read_at: float


def parse_ranges(data: bytes) -> tuple[str, ...]:
    """The networks in a published list; ValueError with a sentence where it is none."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not text") from None
    found = list(_of_json(text)) if text.lstrip()[:1] in {"{", "["} else list(_of_lines(text))
    if not found:
        raise ValueError("names no networks")
    if len(found) > _MOST_NETWORKS:
        raise ValueError(f"names more than {_MOST_NETWORKS:,} networks")
    return tuple(dict.fromkeys(_checked(one) for one in found))


def _of_json(text: str) -> Iterator[str]:
    try:
        waiting: list[object] = [msgspec.json.decode(text)]
    except msgspec.DecodeError as error:
        raise ValueError(f"is not JSON: {error}") from None
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            # Beside the networks stand times and names; a network is told by its look.
            waiting.extend(reversed(list(one.values())))
        elif isinstance(one, list):
            waiting.extend(reversed(one))
        elif isinstance(one, str) and _looks_like_network(one):
            yield one


def _looks_like_network(text: str) -> bool:
    try:
        ip_network(text.strip(), strict=False)
    except ValueError:
        return False
    return True


def _of_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        plain = line.partition("#")[0].strip()
        if plain:
            yield plain


def _checked(text: str) -> str:
    try:
        network = ip_network(text.strip(), strict=False)
    except ValueError:
        raise ValueError(f"{text[:_MOST_SHOWN]!r} is no network") from None
    if network.prefixlen < _WIDEST[network.version]:
        raise ValueError(f"{network} is too wide to be a bot's")
    return str(network)


def load_ranges(path: Path) -> dict[str, PublishedRange]:
    """The lists in the file *path*; none where there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None
    try:
        return msgspec.json.decode(data, type=dict[str, PublishedRange])
    except msgspec.DecodeError as error:
        raise StoreError(f"{path} is damaged ({error}); delete it and run hedgerow bots update") from None


def save_ranges(path: Path, lists: Mapping[str, PublishedRange]) -> None:
    """Write *lists* in place of what is in the file *path*."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(lists)))
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None


def as_ranges(lists: Mapping[str, PublishedRange]) -> dict[str, Ranges]:
    """The lists as `Bots` wants them."""
    return {name: Ranges(Networks(listed.networks), listed.read_at) for name, listed in lists.items()}
