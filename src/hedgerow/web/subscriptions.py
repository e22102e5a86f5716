"""
Subscriptions: block lists of others, read from a URL or a file on a schedule.

The entries carry the name of the subscription as their author, and end by themselves if the list cannot be read any
more. A failed reading changes nothing. The last good copy of each list is kept in the state directory, with a small
file that says what happened; `hedgerow lists subscriptions` shows it. Entries that could lock out this machine, the
proxies in front or a whole part of the Internet are left out, and so are accounts and user agents.
"""

from __future__ import annotations

import asyncio
import io
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hedgerow.corrupt_files import set_aside
from hedgerow.errors import HedgerowError, StoreError
from hedgerow.file_owner import make_directory
from hedgerow.lists.importer import Defaults, ListImport
from hedgerow.lists.model import Listing, parse_subject
from hedgerow.settings import Settings
from hedgerow.settings.store_tables import Subscription
from hedgerow.web.lookups.dns import DnsResolver
from hedgerow.web.lookups.fetch import FetchError, fetch_if_changed
from hedgerow.web.paths import state_directory, temporary_file
from hedgerow.web.stores import build_list_store

log = logging.getLogger(__name__)

AUTHOR = "subscription: "
"""The author of an entry is this and the name of its subscription."""
_SECONDS = 60.0
_INTERVAL = 1.0
_RETRY_AFTER = 300.0
_WIDEST = {4: 8, 6: 16}
_SCHEMES = frozenset({"http", "https"})
_ALWAYS_FREE = ("127.0.0.0/8", "::1/128", "0.0.0.0/32", "::/128")
_Network = IPv4Network | IPv6Network


class Reading(msgspec.Struct, frozen=True):
    """What is known of a subscription: the last success and the last try, as times, and the last failure if any."""

    read_at: float = 0.0
    tried_at: float = 0.0
    entries: int = 0
    left_out: int = 0
    error: str = ""
    failures: int = 0
    etag: str = ""
    modified: str = ""
    source: str = ""


def readings_path(settings: Settings) -> Path:
    return state_directory(settings) / "subscriptions.json"


def read_readings(settings: Settings) -> dict[str, Reading]:
    """Return what is known of each subscription, by name."""
    path = readings_path(settings)
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Reading])
    except OSError:
        pass
    except msgspec.MsgspecError as error:
        with suppress(StoreError):
            set_aside(path, "the file of the subscriptions", error)
    return {}


def own_networks(settings: Settings) -> list[_Network]:
    """Return the networks that no subscription may block: loopback, trusted proxies, and the site's own addresses."""
    texts = [*_ALWAYS_FREE, *settings.identity.trusted_proxies]
    for url in (settings.proxy.upstream, *settings.proxy.own_addresses):
        with suppress(ValueError):
            texts.append(urlsplit(url).hostname or "")
    listeners = (settings.proxy.listen, settings.admin.listen, settings.serve.listen)
    texts += [listen.rpartition(":")[0].strip("[]") for listen in listeners]
    networks: list[_Network] = []
    for text in texts:
        # A host name is not looked up: it may be that of a content delivery network.
        with suppress(ValueError):
            networks.append(ip_network(text, strict=False))
    return networks


class SubscriptionThread:
    """
    Reads the subscriptions of *settings* when they are due, in a thread, until `close`.

    *failures* counts failed readings. One process of a site runs it.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._own = own_networks(settings)
        self.failures = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hedgerow-subscriptions", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                self.step()
            except Exception as error:  # noqa: BLE001 - the next try may work
                log.error("subscriptions cannot be read: %s", error)  # noqa: TRY400 - one line
            if self._stop.wait(_INTERVAL):
                return

    def step(self) -> int:
        """Read the subscriptions that are due, and return how many these were."""
        readings = read_readings(self._settings)
        done = 0
        for subscription in self._settings.lists.subscriptions:
            known = readings.get(subscription.name, Reading())
            if self._stop.is_set() or not self._is_due(subscription, known):
                continue
            readings[subscription.name] = self._read(subscription, known)
            self._save(readings)
            done += 1
        return done

    def _is_due(self, subscription: Subscription, known: Reading) -> bool:
        now = self._clock()
        if known.source != subscription.source:
            return True
        wait = min(subscription.every, _RETRY_AFTER) if known.error else subscription.every
        # A clock that was set back must not stop the readings.
        return now >= known.tried_at + wait or known.tried_at > now

    def _read(self, subscription: Subscription, known: Reading) -> Reading:
        """Read one list. After a failure the last good list stays, and what is left of its time."""
        now = self._clock()
        if known.source != subscription.source:
            known = Reading(source=subscription.source)
        try:
            body, etag, modified = self._fetch(subscription, known)
            count, left_out = self._store(subscription, body, now)
        except (HedgerowError, OSError, UnicodeError) as error:
            self.failures += 1
            log.warning("subscription %s: %s; its last entries stay", ascii(subscription.name), ascii(str(error)))
            return msgspec.structs.replace(known, tried_at=now, error=str(error)[:300], failures=known.failures + 1)
        log.info("subscription %s: %d entries, %d left out", ascii(subscription.name), count, left_out)
        return Reading(now, now, count, left_out, "", known.failures, etag, modified, subscription.source)

    def _fetch(self, subscription: Subscription, known: Reading) -> tuple[bytes, str, str]:
        """Return the list, and what the next request asks with. An unchanged list comes from the copy."""
        if subscription.file:
            path = Path(subscription.file).expanduser()
            if path.stat().st_size > subscription.max_bytes:
                raise FetchError(f"{path} has more than {subscription.max_bytes:,} bytes")
            return path.read_bytes(), "", ""
        copy = self._copy_of(subscription)
        has_copy = copy.is_file()
        fetched = asyncio.run(
            fetch_if_changed(
                subscription.url, DnsResolver(), schemes=_SCHEMES, private=True, max_bytes=subscription.max_bytes,
                seconds=_SECONDS, etag=known.etag if has_copy else "", modified=known.modified if has_copy else "",
            )
        )  # fmt: skip
        if fetched is None:
            return copy.read_bytes(), known.etag, known.modified
        return fetched

    def _store(self, subscription: Subscription, body: bytes, now: float) -> tuple[int, int]:
        """Replace the entries of a subscription, all at once. Return how many there are, and how many were left out."""
        author, left_out = AUTHOR + subscription.name, Counter[str]()
        defaults = Defaults(now, subscription.list, f"on the list {subscription.name}", author, now + subscription.keep)
        source: Any = io.BufferedReader(io.BytesIO(body))
        reading = ListImport(source, subscription.name, defaults, format=subscription.format or None, skip_bad=True)

        def entries() -> Iterator[Listing]:
            for entry in reading:
                if reason := self._reason_against(entry):
                    left_out[reason] += 1
                    continue
                until = min(entry.until, now + subscription.keep) if entry.until else now + subscription.keep
                yield msgspec.structs.replace(entry, list=subscription.list, author=author, until=until)

        found = list(entries())
        if not found and reading.bad:
            raise FetchError(f"it is no list: {reading.faults[0].text}")
        store = build_list_store(self._settings)
        # What an operator or another list says about the same subject stays.
        others = {one.subject: one.author for one in store.read() if one.author != author}
        kept = [one for one in found if one.subject not in others]
        store.put(kept, replacing=author)
        if subscription.url:
            with temporary_file(self._copy_of(subscription), body) as temporary:
                temporary.replace(self._copy_of(subscription))
        return len(kept), len(found) - len(kept) + sum(left_out.values()) + reading.bad + sum(reading.left_out.values())

    def _reason_against(self, entry: Listing) -> str:
        """Return why an entry of somebody else's list is not used, or ""."""
        subject = parse_subject(entry.subject)
        if subject.kind in {"account", "agent"}:
            return "no network"
        if not subject.version:
            return ""
        network = ip_network(subject.text)
        if network.prefixlen < _WIDEST[network.version]:
            return "too wide"
        return "our own" if any(network.version == own.version and network.overlaps(own) for own in self._own) else ""

    def _copy_of(self, subscription: Subscription) -> Path:
        return state_directory(self._settings) / f"subscription-{subscription.name}.copy"

    def _save(self, readings: dict[str, Reading]) -> None:
        names = {subscription.name for subscription in self._settings.lists.subscriptions}
        known = {name: reading for name, reading in readings.items() if name in names}
        path = readings_path(self._settings)
        try:
            make_directory(path.parent)
            with temporary_file(path, msgspec.json.format(msgspec.json.encode(known))) as temporary:
                temporary.replace(path)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror}") from None
