"""
Lists and blocks as files for other servers, kept up to date.

    nginx  `address black;` for a `geo` block, in which the most specific network applies
    map    `address black` for HAProxy's `map_ip`, in which the most specific network applies, and for a `RewriteMap` of
           Apache, which finds only single addresses

The files contain only addresses and networks. A file is written completely and then replaces the old one. After that a
command is run that makes the server read it again.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from hedgerow.core.decision import Block
from hedgerow.core.state import ACCOUNT, CLEARANCE
from hedgerow.lists.model import Listing, ListName, Lists, parse_subject
from hedgerow.services.banlist.local_lists import LocalLists

log = logging.getLogger(__name__)

FileFormat = Literal["nginx", "map"]
_LINES = {"nginx": "{} {};\n", "map": "{} {}\n"}
_MIN_INTERVAL, _MAX_INTERVAL = 1.0, 60.0
_RELOAD_TIMEOUT = 30.0


def networks_of(listings: Sequence[Listing], blocks: Sequence[Block], at: float) -> dict[str, ListName]:
    """
    Return the list of each address and network at the time *at*.

    White wins if it is on both. A block counts as black unless an entry matches its address, because the
    administrator's lists come first.
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
    lines = (_LINES[kind].format(network, name) for network, name in sorted(networks.items(), key=_order))
    return "# Kept current by hedgerow client: changes are lost.\n" + "".join(lines)


def _order(pair: tuple[str, ListName]) -> tuple[int, int, int]:
    network = ipaddress.ip_network(pair[0])
    return network.version, int(network.network_address), network.prefixlen


class ListFiles:
    """Writes *files* in a thread whenever *local* changes or something in it ends, and then runs *reload*."""

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
        """How often a file was written."""
        local.changed = self._changed.set

    def start(self) -> None:
        """Create missing files, without which a server would not start, and start the thread."""
        for path in self._files:
            if not path.exists():
                path.touch()
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        pause = _MAX_INTERVAL
        while not self._stop.is_set():
            self._changed.wait(pause)
            self._changed.clear()
            # Until the lists have arrived once, the old files are better than nothing.
            if self._local.version and not self._stop.is_set():
                try:
                    pause = self.write()
                except (OSError, subprocess.SubprocessError) as error:
                    log.error("cannot write the lists for other servers: %s", error)  # noqa: TRY400
                    pause = _MAX_INTERVAL
                self._stop.wait(_MIN_INTERVAL)

    def write(self) -> float:
        """Write the files that have changed, and return the seconds until an entry or block ends."""
        listings, blocks = self._local.everything()
        at = self._clock()
        networks = networks_of(listings, blocks, at)
        changed = False
        for path, kind in self._files.items():
            text = text_of(kind, networks)
            if not path.exists() or path.read_text() != text:
                new = path.with_name(path.name + ".new")
                new.write_text(text)
                new.replace(path)
                changed = True
        if changed:
            self.written += 1
            if self._reload:
                subprocess.run(self._reload, check=True, timeout=_RELOAD_TIMEOUT, stdin=subprocess.DEVNULL)  # noqa: S603 - the operator's own command
        ends = [*(listing.until for listing in listings), *(block.until for block in blocks)]
        return max(_MIN_INTERVAL, min(min((end for end in ends if end > at), default=math.inf) - at, _MAX_INTERVAL))
