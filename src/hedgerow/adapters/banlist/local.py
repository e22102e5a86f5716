"""
Lists and blocks in the site's own memory, and what they say of a request: some microseconds, nobody is asked.

The order is that of the gate: the administrator's lists first, the most specific entry counts; then blocks, of the
visitor, of everyone at its address, of its network.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from hedgerow.adapters.banlist.wire import Line
from hedgerow.identity.account import visitor_of
from hedgerow.identity.address import network_of, prefix_of
from hedgerow.policy.lists import Listing, ListName, Lists, decide
from hedgerow.recall import everyone_at
from hedgerow.verdict import PASS, Block, Decision

_MOST_KNOWN = 1 << 14
# How keys end that are not one visitor's: everyone at an address, and networks.
_OF_SEVERAL = ("/*", "/24", "/48")
_LONGEST_KNOWN = 400


class Local:
    """What the server has told, ready to be looked up. One thread at a time may `take`; any may `check`."""

    def __init__(self) -> None:
        self._lists = Lists()
        self._blocks: dict[str, Block] = {}
        self._wider = False
        self._entries: dict[tuple[ListName, str], Listing] = {}
        self._found: dict[tuple[str, str, str], Decision] = {}
        self._lock = threading.Lock()
        self.version = ""
        """That of what is here; empty until everything has come once."""
        self.changed: Callable[[], None] = lambda: None
        """Called when something has been taken in."""

    def __len__(self) -> int:
        return len(self._lists) + len(self._blocks)

    def check(self, at: float, address: str, account: str = "", user_agent: str = "") -> Decision:
        """What lists and blocks say of a request: pass, or what keeps it out."""
        found = self._found
        if found:
            known = found.get((address, account, user_agent))
            if known is not None and (not known.until or known.until > at):
                return known
        decision = self._look_up(at, address, account, user_agent)
        if decision is not PASS and len(user_agent) + len(account) <= _LONGEST_KNOWN:
            # Into those that were there before the look-up: what is found in lists that are replaced goes with them.
            if len(found) >= _MOST_KNOWN:
                found.clear()
            found[address, account, user_agent] = decision
        return decision

    def _look_up(self, at: float, address: str, account: str, user_agent: str) -> Decision:
        found = self._lists.find(at, address, account, user_agent)
        if found is not None:
            return decide(found.entry())
        blocks = self._blocks
        if blocks and (address or account):
            prefix = prefix_of(address)
            block = blocks.get(visitor_of(account, prefix))
            if block is not None and block.until > at:
                return Decision(block.action, (block.evidence,), block.until)
            for key in (everyone_at(prefix), network_of(address)) if self._wider else ():
                block = blocks.get(key)
                if block is not None and block.until > at:
                    return Decision(block.action, (block.evidence,), block.until)
        return PASS

    def take(self, lines: Iterable[Line]) -> None:
        """
        Take in lines up to a version.

        Everything anew is made ready beside what is there, and put in its place at once: nobody is let in meanwhile.
        """
        with self._lock:
            lists, blocks, entries, version = self._lists, dict(self._blocks), self._entries, self.version
            changed = False
            for line in lines:
                changed = changed or not line.at
                if line.start:
                    lists, blocks, entries = Lists(), {}, {}
                elif line.put is not None:
                    lists.put(line.put)
                    entries[line.put.list, line.put.subject] = line.put
                elif line.drop is not None:
                    lists.drop(*line.drop)
                    entries.pop(line.drop, None)
                elif line.block is not None:
                    blocks[line.block.key] = line.block
                elif line.free:
                    blocks.pop(line.free, None)
                version = line.at or version
            if not changed:
                self.version = version
                return
            lists.settle()
            self._wider = any(key.endswith(_OF_SEVERAL) for key in blocks)
            self._lists, self._blocks, self._entries, self.version = lists, blocks, entries, version
            self._found = {}
        self.changed()

    def everything(self) -> tuple[list[Listing], list[Block]]:
        """All entries and blocks."""
        with self._lock:
            return list(self._entries.values()), list(self._blocks.values())
