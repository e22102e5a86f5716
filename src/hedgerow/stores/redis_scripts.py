"""
What is said to Redis and what it answers: one script for each question of the state, its arguments, its reply.

Here is no connection. The windows, limits and the prefix of all keys stand in the scripts' text, so that a visit sends
no more than itself; settings that are read again make other scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, Literal

import msgspec

from hedgerow.recall import Memory, Question
from hedgerow.stores.trails import Counted
from hedgerow.verdict import Block, Change, Identity, Standing
from hedgerow.visit import Kind
from hedgerow.windows.density import Window, series_of

_SLACK = 60.0
_STANDING_COST = 700
_OF_A_DAY = frozenset({"page", "call"})

Command = tuple[bytes | str | int | float, ...]
"""A command and its arguments, as they are packed for the wire."""


class _Standing(msgspec.Struct, array_like=True, gc=False):
    identity: Identity
    suspicion: float
    at: float
    day: int
    wrong: int
    challenges: int
    reasons: tuple[tuple[str, int], ...]

    def plain(self) -> Standing:
        return Standing(self.identity, self.suspicion, self.at, self.day, self.wrong, self.challenges, self.reasons)


class _More(msgspec.Struct, array_like=True, gc=False):
    strikes: int
    today: int
    counts: tuple[int, ...]
    standing: _Standing | bool
    entries: tuple[str, ...]
    offences: tuple[tuple[str, int], ...]


class Record(msgspec.Struct):
    """What is known of a key, as the scripts keep it."""

    k: str
    b: str | None = None
    s: _Standing | None = None

    @property
    def block(self) -> Block | None:
        return msgspec.json.decode(self.b, type=Block) if self.b is not None else None

    @property
    def standing(self) -> Standing | None:
        return self.s.plain() if self.s is not None else None


_RECORD = msgspec.msgpack.Decoder(Record)
_MORE = msgspec.msgpack.Decoder(_More)
_BLOCK = msgspec.json.Decoder(Block)


@cache
def _text(name: str) -> str:
    return files("hedgerow.data.redis").joinpath(name + ".lua").read_text("utf-8")


class Script:
    """A script, under the name by which Redis knows it once it is loaded."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.name = sha1(text.encode(), usedforsecurity=False).hexdigest()

    def call(self, *arguments: bytes | str | float) -> Command:
        return ("EVALSHA", self.name, "0", *arguments)


def _lua(text: str) -> str:
    """A text as Lua writes it."""
    return '"' + "".join(c if c.isalnum() or c in ":-_{}" else f"\\{ord(c):03d}" for c in text) + '"'


def _number(value: float) -> str:
    return repr(float(value))


def text(key: str) -> bytes:
    """A key on the wire; half a surrogate pair, which is no text, becomes its escape."""
    try:
        return key.encode()
    except UnicodeEncodeError:
        return key.encode("utf-8", "backslashreplace")


class Scripts:
    """The scripts for these windows and limits: what to send, and what the replies mean."""

    def __init__(
        self, prefix: str, windows: Sequence[Window], *, memory: int, most_blocks: int, remember: float
    ) -> None:
        self.prefix = prefix
        self._limits = (
            f"local P, MOST_BLOCKS, MOST_KNOWN, REMEMBER = "
            f"{_lua(prefix)}, {most_blocks}, {memory // 4 // _STANDING_COST}, {_number(remember)}\n"
        )
        self.commit_script, self.amend_script, self.forgive_script = (
            Script(self._limits + _text("known") + _text(name)) for name in ("commit", "amend", "forgive")
        )
        self.use(windows)

    def use(self, windows: Sequence[Window]) -> None:
        """Count for these windows from now on."""
        counted = Counted(windows)
        each = ", ".join(
            f'{{"{by}", {{{", ".join(map(str, series))}}}, {_number(seconds)}}}'
            for by, series, seconds in counted.windows
        )
        series = ", ".join(f"[{n}] = true" for n in sorted(counted.series))
        self.recall_script = Script(
            f"local P, WINDOWS, KEEP, MOST, SERIES, TTL = {_lua(self.prefix)}, {{{each}}}, "
            f"{_number(counted.keep)}, {counted.most}, {{{series}}}, {int((counted.keep + _SLACK) * 1000)}\n"
            + _text("recall")
        )

    def all(self) -> tuple[Script, ...]:
        return (self.recall_script, self.commit_script, self.amend_script, self.forgive_script)

    # ---- What to send

    def recall(self, question: Question, claimed: Kind | None = None) -> Command:
        kind = question.kind
        more = int(kind in _OF_A_DAY)
        dropped = -1
        if claimed is not None:
            more -= claimed in _OF_A_DAY
            dropped = series_of(claimed)
        return (
            "EVALSHA", self.recall_script.name, "0", repr(question.at), series_of(kind), dropped,
            text(question.visitor), text(question.prefix), text(question.network),
            "1" if question.count else "0", question.day, more,
        )  # fmt: skip

    def commit(self, block: Block) -> Command:
        return self.commit_script.call(
            text(block.key), text(block.prefix), _number(block.since), _number(block.until), block.offence,
            msgspec.json.encode(block),
        )  # fmt: skip

    def amend(self, change: Change) -> Command:
        return self.amend_script.call(
            text(change.key), _number(change.at), change.day, _number(change.half_life), _number(change.weight),
            int(change.wrong), int(change.challenged), int(change.cleared), change.identity, text(change.entry),
            *change.codes,
        )  # fmt: skip

    def forgive(self, key: str) -> Command:
        return self.forgive_script.call(text(key))

    def in_order(self, sort: Literal["b", "s"]) -> Command:
        """All keys that have a block, or a standing or entries; who changed first comes first."""
        return ("ZRANGE", f"{self.prefix}o:{sort}", "0", "-1")

    def records(self, keys: Sequence[bytes]) -> Command:
        return ("MGET", *(self.prefix.encode() + b"m:" + key for key in keys))

    # ---- What the replies mean

    @staticmethod
    def memory(reply: Any) -> Memory:
        """The answer to `recall`."""
        if type(reply) is bytes:
            return Memory(_BLOCK.decode(reply), ())
        if not reply or type(reply[0]) is int:
            return Memory(None, tuple(reply))
        more = _MORE.decode(reply[0])
        standing = more.standing.plain() if isinstance(more.standing, _Standing) else None
        return Memory(None, more.counts, more.strikes, standing, more.today, more.entries, more.offences)

    @staticmethod
    def record(reply: bytes) -> Record:
        return _RECORD.decode(reply)
