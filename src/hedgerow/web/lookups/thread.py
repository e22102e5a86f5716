"""
The background: questions about bots are answered by a thread of its own, several at once, in no request's way.

It starts with the first question. So many may wait; what comes on top is dropped, and asked again at a later visit.
A question that nobody answered is not asked again at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from hedgerow.errors import HedgerowError
from hedgerow.request.bot_signature import DIRECTORY, read_directory
from hedgerow.request.bot_verifier import BotCache
from hedgerow.request.bots import NameLookup
from hedgerow.web.lookups.dns import DnsTimeoutError, Resolver, is_in
from hedgerow.web.lookups.fetch import fetch

log = logging.getLogger(__name__)

_MOST_WAITING = 1000
_AT_ONCE = 8
_MOST_FAILED = 10_000
_PATIENCE = 60.0
_MOST_DIRECTORY = 100_000


class LookupThread:
    """
    Answers what *bot_cache* asks.

    *insecure* lets keys be read from private addresses and by http: for tests. Who failed to answer is asked again
    after *patience* seconds.
    """

    def __init__(
        self, bot_cache: BotCache, resolver: Resolver, *, insecure: bool = False, patience: float = _PATIENCE
    ) -> None:
        self._known = bot_cache
        self.resolver = resolver
        self.insecure = insecure
        self._patience = patience
        self._under_way: set[object] = set()
        self._failed: dict[object, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: asyncio.Semaphore | None = None
        self._lock = threading.Lock()
        self._closed = False
        self.dropped = 0
        bot_cache.proofs.ask = self._ask_name
        bot_cache.keys.ask = self._ask_keys

    def _ask_name(self, question: NameLookup) -> None:
        key = (question.bot.name, question.address)
        self._submit(key, question.at, lambda: self._name(question))

    def _ask_keys(self, signer: str, at: float) -> None:
        self._submit(signer, at, lambda: self._keys(signer, at))

    def _submit(self, key: object, at: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if key in self._under_way or at - self._failed.get(key, -self._patience) < self._patience:
            return
        if len(self._under_way) >= _MOST_WAITING or self._closed:
            self.dropped += 1
            return
        self._under_way.add(key)
        loop = self._loop or self._start()
        loop.call_soon_threadsafe(lambda: loop.create_task(self._run(key, at, work)))

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._slots = asyncio.Semaphore(_AT_ONCE)
                thread = threading.Thread(target=self._loop.run_forever, name="hedgerow-lookups", daemon=True)
                thread.start()
                self._thread = thread
            return self._loop

    async def _run(self, key: object, at: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert self._slots is not None
        try:
            async with self._slots:
                await work()
            self._failed.pop(key, None)
        except HedgerowError as error:
            if len(self._failed) >= _MOST_FAILED:
                self._failed.clear()
            self._failed[key] = at
            log.info("not looked up: %s", ascii(str(error)))
        except Exception:
            self._failed[key] = at
            log.exception("a look-up broke")
        finally:
            self._under_way.discard(key)

    async def _name(self, question: NameLookup) -> None:
        true = await is_in(question.address, question.bot.domains, self.resolver)
        self._known.proofs.learn(question, true=true)

    async def _keys(self, signer: str, at: float) -> None:
        scheme = "http" if self.insecure else "https"
        schemes = frozenset({scheme})
        text = await fetch(
            f"{scheme}://{signer}{DIRECTORY}", self.resolver, schemes=schemes, private=self.insecure,
            most_bytes=_MOST_DIRECTORY,
        )  # fmt: skip
        keys = read_directory(text)
        if keys is None:
            raise DnsTimeoutError(f"{signer} has no directory of keys")
        self._known.keys.learn(signer, keys, at)

    def settle(self, seconds: float = 10.0) -> bool:
        """Wait until nothing is under way: for tests. Whether that came to pass."""
        event = threading.Event()
        for _ in range(int(seconds * 100)):
            if not self._under_way:
                return True
            event.wait(0.01)
        return False

    def close(self) -> None:
        """Stop; what is under way is left."""
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
