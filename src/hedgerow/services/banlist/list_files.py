"""
Lists and blocks as files of other servers, kept current.

    nginx  `address black;` for a `geo` block: the most specific network counts, there as here
    map    `address black` for HAProxy's `map_ip`, which takes the most specific too, and for a `RewriteMap` of Apache,
           which finds addresses alone

Only addresses and networks can stand there. A file is written whole and put in its place at once; then *reload* is run,
which has the server read it again.
"""

from __future__ import annotations

import ipaddress
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from hedgerow.core.decision import Block
from hedgerow.core.state import ACCOUNT, CLEARANCE
from hedgerow.lists.model import Listing, ListName, Lists, parse_subject
from hedgerow.services.banlist.local_lists import LocalLists

log = logging.getLogger(__name__)

FileFormat = Literal["nginx", "map"]
_LINES = {"nginx": "{} {};\n", "map": "{} {}\n"}
_AT_MOST_EVERY = 1.0
_RELOAD_SECONDS = 30.0
_LONGEST_PAUSE = 60.0


def networks_of(listings: Sequence[Listing], blocks: Sequence[Block], at: float) -> dict[str, ListName]:
    """
    Which list each address and network is on, at *at*.

    Where it is on both, white wins. A block counts as black, but not where a white entry holds its address: to the gate
    the administrator's word comes first.
    """
    found: dict[str, ListName] = {}
    for listing in listings:
        if listing.in_force(at) and parse_subject(listing.subject).version and found.get(listing.subject) != "white":
            found[listing.subject] = listing.list
    lists = Lists(listing for listing in listings if listing.subject in found)
    for block in blocks:
        key = block.key.removesuffix("/*")
        if block.until <= at or key.startswith((ACCOUNT, CLEARANCE)):
            continue
        first = key.partition("/")[0]
        if first and lists.find(at, first) is None:
            found.setdefault(key, "black")
    return found


def text_of(kind: FileFormat, networks: dict[str, ListName]) -> str:
    """The file's text."""
    line = _LINES[kind]
    return "# Kept current by hedgerow client: changes are lost.\n" + "".join(
        line.format(network, name) for network, name in sorted(networks.items(), key=_order)
    )


def _order(pair: tuple[str, ListName]) -> tuple[int, int, int]:
    network = ipaddress.ip_network(pair[0])
    return network.version, int(network.network_address), network.prefixlen


def _ends(listings: Sequence[Listing], blocks: Sequence[Block], at: float) -> Iterator[float]:
    yield from (listing.until for listing in listings if listing.until > at)
    yield from (block.until for block in blocks if block.until > at)


class ListFiles:
    """Writes *files* whenever *local* has changed or something in it has ended, in a thread of its own."""

    def __init__(
        self,
        local: LocalLists,
        files: dict[Path, FileFormat],
        reload: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._local = local
        self._files = files
        self._reload = reload
        self._clock = clock
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hedgerow-client-files", daemon=True)
        self.written = 0
        """How often something was written."""
        local.changed = self._changed.set

    def start(self) -> None:
        """A file that is not there is made, for a server that would not start without it."""
        for path in self._files:
            if not path.exists():
                path.touch()
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        pause = _LONGEST_PAUSE
        while not self._stop.is_set():
            self._changed.wait(pause)
            self._changed.clear()
            # Until everything has come once, what was written last time is better than nothing.
            if self._local.version and not self._stop.is_set():
                try:
                    pause = self.write()
                except (OSError, subprocess.SubprocessError) as error:
                    log.error("the lists cannot be handed on: %s", error)  # noqa: TRY400
                    pause = _LONGEST_PAUSE
                self._stop.wait(_AT_MOST_EVERY)

    def write(self) -> float:
        """Write what has changed; seconds until something ends."""
        listings, blocks = self._local.everything()
        at = self._clock()
        networks = networks_of(listings, blocks, at)
        changed = False
        for path, kind in self._files.items():
            text = text_of(kind, networks)
            if not path.exists() or path.read_text() != text:
                beside = path.with_name(path.name + ".new")
                beside.write_text(text)
                beside.replace(path)
                changed = True
        if changed:
            self.written += 1
            if self._reload:
                subprocess.run(self._reload, check=True, timeout=_RELOAD_SECONDS, stdin=subprocess.DEVNULL)  # noqa: S603 - the operator's own command
        return max(
            _AT_MOST_EVERY, min(min(_ends(listings, blocks, at), default=at + _LONGEST_PAUSE) - at, _LONGEST_PAUSE)
        )
