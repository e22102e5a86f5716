"""Resolving: the names of the addresses of those who say they are bots, asked of the DNS, some at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hedgerow.request.bots import BotProofs, NameLookup
from hedgerow.web.lookups.dns import DnsTimeoutError, Resolver, is_in

_AT_ONCE = 50


def resolve(questions: Sequence[NameLookup], proofs: BotProofs, resolver: Resolver) -> int:
    """Ask about all *questions* and let *proofs* know; gives how many had no answer."""
    return asyncio.run(_resolve({(q.bot.name, q.address): q for q in questions}, proofs, resolver))


async def _resolve(questions: dict[tuple[str, str], NameLookup], proofs: BotProofs, resolver: Resolver) -> int:
    room = asyncio.Semaphore(_AT_ONCE)

    async def ask(question: NameLookup) -> bool:
        async with room:
            try:
                true = await is_in(question.address, question.bot.domains, resolver)
            except DnsTimeoutError:
                return False
        proofs.learn(question, true=true)
        return True

    answered = await asyncio.gather(*(ask(question) for question in questions.values()))
    return answered.count(False)
