"""
A background thread that makes DNS and HTTP lookups about bots, several at once, so that no request waits for one.

The thread starts with the first lookup. If too many are pending, further ones are dropped; a later visit requests them
again. A failed lookup is not repeated at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from hedgerow.errors import HedgerowError
from hedgerow.request.bot_cache import BotCache
from hedgerow.request.bot_signature import DIRECTORY, read_directory
from hedgerow.request.bots import NameLookup
from hedgerow.web.lookups.dns import DnsTimeoutError, Resolver, is_in
from hedgerow.web.lookups.fetch import fetch

log = logging.getLogger(__name__)

_MAX_PENDING = 1000
_MAX_CONCURRENT = 8
_MAX_FAILED = 10_000
_MAX_DIRECTORY = 100_000


class LookupThread:
    """Makes the lookups of *bot_cache*. *insecure* allows keys from private addresses and by http, for tests."""

    def __init__(
        self, bot_cache: BotCache, resolver: Resolver, *, insecure: bool = False, retry_after: float = 60.0
    ) -> None:
        self._bot_cache = bot_cache
        self._resolver = resolver
        self._insecure = insecure
        self._retry_after = retry_after
        self._pending: set[object] = set()
        self._failed: dict[object, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: asyncio.Semaphore | None = None
        self._lock = threading.Lock()
        self._closed = False
        self.dropped = 0
        bot_cache.proofs.ask = self._ask_name
        bot_cache.keys.ask = self._ask_keys

    def _ask_name(self, question: NameLookup) -> None:
        self._submit((question.bot.name, question.address), question.at, lambda: self._look_up_name(question))

    def _ask_keys(self, signer: str, at: float) -> None:
        self._submit(signer, at, lambda: self._fetch_keys(signer, at))

    def _submit(self, key: object, at: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if key in self._pending or at - self._failed.get(key, -self._retry_after) < self._retry_after:
            return
        if len(self._pending) >= _MAX_PENDING or self._closed:
            self.dropped += 1
            return
        self._pending.add(key)
        loop = self._loop or self._start()
        loop.call_soon_threadsafe(lambda: loop.create_task(self._run(key, at, work)))

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._slots = asyncio.Semaphore(_MAX_CONCURRENT)
                self._thread = threading.Thread(target=self._loop.run_forever, name="hedgerow-lookups", daemon=True)
                self._thread.start()
            return self._loop

    async def _run(self, key: object, at: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert self._slots is not None
        try:
            async with self._slots:
                await work()
            self._failed.pop(key, None)
        except HedgerowError as error:
            if len(self._failed) >= _MAX_FAILED:
                self._failed.clear()
            self._failed[key] = at
            log.info("not looked up: %s", ascii(str(error)))
        except Exception:
            self._failed[key] = at
            log.exception("a look-up broke")
        finally:
            self._pending.discard(key)

    async def _look_up_name(self, question: NameLookup) -> None:
        true = await is_in(question.address, question.bot.domains, self._resolver)
        self._bot_cache.proofs.learn(question, true=true)

    async def _fetch_keys(self, signer: str, at: float) -> None:
        scheme = "http" if self._insecure else "https"
        text = await fetch(
            f"{scheme}://{signer}{DIRECTORY}", self._resolver, schemes=frozenset({scheme}), private=self._insecure,
            max_bytes=_MAX_DIRECTORY,
        )  # fmt: skip
        keys = read_directory(text)
        if keys is None:
            raise DnsTimeoutError(f"{signer} has no directory of keys")
        self._bot_cache.keys.learn(signer, keys, at)

    def close(self) -> None:
        """Cancel all lookups and stop the thread."""
        self._closed = True
        loop, self._loop = self._loop, None
        if loop is None:
            return

        async def leave() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            loop.stop()

        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(leave(), loop)
            self._thread.join(2.0)
            if not self._thread.is_alive():
                loop.close()
