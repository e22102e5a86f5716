"""
The Lua scripts of the state, their arguments and their replies. There is no connection here.

Windows, limits and the prefix of all keys are part of a script's text, so a visit sends only itself. New settings give
other scripts.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import sha1
from importlib.resources import files
from itertools import pairwise
from typing import Any

import msgspec

from hedgerow.core.decision import Block, Identity, ScoreUpdate, VisitorScore
from hedgerow.core.rate_limit import RATE_HALF_LIFE, RATE_PER_VISIT, SERIES, RateLimit, count_hits
from hedgerow.core.state import EVERYONE, StateQuery, StateReply
from hedgerow.core.visit import Kind
from hedgerow.state.hit_times import DAILY_KINDS, SCORE_BYTES, Counted

_TTL_MARGIN = 60.0
_TIME = struct.Struct("<d")
_RECORDS = 3
"""The records at the start of a reply, before the counters."""
_OTHER_WORDS = 16
_NAMES = 5
_CACHED_ENDS = 1000

Command = tuple[bytes | str | int | float, ...] | bytes
"""A command with its arguments, or its bytes as they are sent."""
_Score = tuple[Identity, float, float, int, int, int, tuple[tuple[str, int], ...]]
"""The fields of a `VisitorScore`."""


class _Details(msgspec.Struct, array_like=True, gc=False):
    strikes: int
    today: int
    score: _Score | bool
    entries: tuple[str, ...]
    offences: tuple[tuple[str, int], ...]
    site_rate: float


class RedisRecord(msgspec.Struct):
    """What is known about a key, as the scripts store it."""

    k: str
    b: str | None = None
    s: _Score | None = None

    @property
    def block(self) -> Block | None:
        return msgspec.json.decode(self.b, type=Block) if self.b is not None else None

    @property
    def score(self) -> VisitorScore | None:
        return VisitorScore(*self.s) if self.s is not None else None


decode_record = msgspec.msgpack.Decoder(RedisRecord).decode
_DETAILS = msgspec.msgpack.Decoder(_Details)
_BLOCK = msgspec.json.Decoder(Block)


def _hits(data: bytes) -> array[float]:
    """Return the times of a counter, sorted: some visits come late."""
    hits = array("d", data)
    return array("d", sorted(hits)) if any(a > b for a, b in pairwise(hits)) else hits


@cache
def _lua_file(name: str) -> str:
    return files("hedgerow.data.redis").joinpath(name + ".lua").read_text("utf-8")


class Script:
    """A script, and the name under which Redis knows it once it is loaded."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.name = sha1(text.encode(), usedforsecurity=False).hexdigest()

    def call(self, *arguments: bytes | str | float) -> Command:
        return ("EVALSHA", self.name, "0", *arguments)


def _lua_string(text: str) -> str:
    return '"' + "".join(c if c.isalnum() or c in ":-_{}" else f"\\{ord(c):03d}" for c in text) + '"'


def _number(value: float) -> str:
    return repr(float(value))


def text(key: str) -> bytes:
    """Encode a key. Lone surrogates, which are not valid text, are escaped."""
    return key.encode("utf-8", "backslashreplace")


class _VisitCommand:
    """
    The command that records a visit, as a template of the bytes to send.

    There is one for visits with and without an account (*other*) and with and without a network, because each has other
    keys. Building the bytes from a template takes half the time of encoding the command. The words after the keys
    rarely change and are cached.
    """

    def __init__(self, prefix: str, script: str, counted: Counted, *, other: bool, network: bool) -> None:
        self._prefix = own = prefix.encode()
        self._other = other
        # Each key: what it starts with, and the index of the visitor, everyone, the network, the prefix or "". The
        # names for counters follow after these.
        visitor, everyone, of_network, of_prefix, nobody = range(_NAMES)
        keys = [(b"m:", visitor), (b"m:", everyone), (b"m:", of_network) if network else (b"-", nobody)]
        counters = [b"c%d:" % series for series in sorted(counted.series)]
        # The number of the first counter of each key for which the visit counts. Those of a prefix are only read.
        self._starts: list[int] = []
        for whose, is_read, is_counted in (
            (visitor, True, True),
            (everyone, counted.by_prefix, other),
            (of_network, network, True),
            (of_prefix, counted.by_prefix and other, False),
        ):
            if is_read:
                if is_counted:
                    self._starts.append(len(keys) + 1)
                keys += [(counter, _NAMES + whose) for counter in counters]
        self._places = {series: place for place, series in enumerate(sorted(counted.series))}
        words = len(keys) + _OTHER_WORDS
        head = f"*{words}\r\n$7\r\nEVALSHA\r\n$40\r\n{script}\r\n${len(str(len(keys)))}\r\n{len(keys)}\r\n"
        self._template = b"".join(
            (
                head.encode(),
                *(b"$%d\r\n" + (own + name).replace(b"%", b"%%") + b"%b\r\n" for name, _ in keys),
                b"$%d\r\n%b\r\n$8\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n",
            )
        )
        self._keys = tuple((len(own) + len(name), whose) for name, whose in keys)
        self._end = lru_cache(_CACHED_ENDS)(self._encode_end)

    def encode(
        self,
        at: float,
        visitor: bytes,
        prefix: bytes,
        network: bytes,
        daily: bytes,
        apart: bytes,
        end: tuple[int, int, int, int, int],
    ) -> bytes:
        """
        Return the command for one visit.

        *end* has the day, the requests to count for it, the series in which to count the visit and from which to take
        it back (or -1), and the visits to add to the rate of the whole site (-1 if that is not asked for).
        """
        everyone = EVERYONE.encode()
        names = (
            visitor, prefix + everyone, network, prefix, b"",
            visitor + apart, prefix + apart + everyone, network + apart, prefix + apart,
        )  # fmt: skip
        values: list[int | bytes] = []
        for length, whose in self._keys:
            name = names[whose]
            values += (length + len(name), name)
        when = repr(at).encode()
        strikes = self._prefix + b"x:" + prefix if self._other else b""
        today = self._prefix + b"d:" + (daily or visitor) if end[0] else b""
        values += (len(when), when, _TIME.pack(at), len(strikes), strikes, len(today), today)
        return self._template % tuple(values) + self._end(*end)

    def _encode_end(self, day: int, more: int, counted_in: int, taken_from: int, site: int) -> bytes:
        words = [day, more]
        for series in (counted_in, taken_from):
            place = self._places.get(series)
            numbers = [start + place for start in self._starts] if place is not None else []
            words += [*numbers, 0, 0, 0][:3]
        return b"".join(b"$%d\r\n%d\r\n" % (len(str(word)), word) for word in (*words, site))


class Scripts:
    """The scripts for these windows and limits: what to send, and what the replies mean."""

    def __init__(
        self, prefix: str, windows: Sequence[RateLimit], *, memory: int, most_blocks: int, remember: float
    ) -> None:
        self.prefix = prefix
        limits = (
            f"local P, MOST_BLOCKS, MOST_KNOWN, REMEMBER = "
            f"{_lua_string(prefix)}, {most_blocks}, {memory // 4 // SCORE_BYTES}, {_number(remember)}\n"
        )
        self.commit_script, self.amend_script, self.forgive_script = (
            Script(limits + _lua_file("known") + _lua_file(name)) for name in ("commit", "amend", "forgive")
        )
        self.use_limits(windows)

    def use_limits(self, windows: Sequence[RateLimit]) -> None:
        counted = self._counted = Counted(windows)
        self._series = {series: place for place, series in enumerate(sorted(counted.series))}
        self.recall_script = Script(
            f"local P, KEEP, LONGEST, TTL = {_lua_string(self.prefix)}, {_number(counted.keep)}, {counted.most * 8}, "
            f"{int((counted.keep + _TTL_MARGIN) * 1000)}\n"
            f"local RATE_HALF_LIFE, RATE_PER_VISIT = {_number(RATE_HALF_LIFE)}, {_number(RATE_PER_VISIT)}\n"
            + _lua_file("recall")
        )
        self._commands = {
            (other, network): _VisitCommand(self.prefix, self.recall_script.name, counted, other=other, network=network)
            for other in (False, True)
            for network in (False, True)
        }

    def all(self) -> tuple[Script, ...]:
        return (self.recall_script, self.commit_script, self.amend_script, self.forgive_script)

    # ---- What to send

    def record_visit(self, query: StateQuery, counted_as: Kind | None = None) -> bytes:
        """Return the command that records a visit, and takes it back where it was *counted_as* another kind."""
        visitor, prefix, network = text(query.visitor), text(query.prefix), text(query.network)
        more, taken_from = int(query.kind in DAILY_KINDS), -1
        if counted_as is not None:
            more -= counted_as in DAILY_KINDS
            taken_from = SERIES[counted_as]
        day, counted_in, site = 0, -1, -1
        if query.count:
            day, counted_in = query.day, SERIES[query.kind]
            site = int(counted_as is None) if query.site_rate else -1
        command = self._commands[visitor != prefix, network != b""]
        return command.encode(
            query.at, visitor, prefix, network, text(query.daily), text(query.apart),
            (day, more, counted_in, taken_from, site),
        )  # fmt: skip

    def commit(self, block: Block, *, again: bool = False) -> Command:
        """Set a block; if it is sent *again*, only where none is known."""
        return self.commit_script.call(
            text(block.key), text(block.prefix), _number(block.since), _number(block.until), block.offence,
            msgspec.json.encode(block), int(again),
        )  # fmt: skip

    def is_again(self, command: Command) -> bool:
        """Tell whether a command only repeats a block that was set before."""
        return command[:2] == self.commit_script.call()[:2] and command[-1] == 1

    def update_score(self, change: ScoreUpdate) -> Command:
        return self.amend_script.call(
            text(change.key), _number(change.at), change.day, _number(change.half_life), _number(change.weight),
            int(change.suspicious), int(change.challenged), int(change.cleared), change.identity, text(change.entry),
            *change.codes,
        )  # fmt: skip

    def forgive(self, key: str, at: float) -> Command:
        return self.forgive_script.call(text(key), _number(at))

    # ---- What the replies mean

    def reply(self, query: StateQuery, reply: Any) -> StateReply:
        """Decode the reply to `record_visit`."""
        if type(reply) is bytes:
            return StateReply(_BLOCK.decode(reply), ())
        counts = self._counts(query, reply) if query.count and SERIES[query.kind] in self._series else ()
        if reply[0] is None:
            return StateReply(None, counts)
        more = _DETAILS.decode(reply[0])
        score = VisitorScore(*more.score) if isinstance(more.score, tuple) else None
        return StateReply(None, counts, more.strikes, score, more.today, more.entries, more.offences, more.site_rate)

    def _counts(self, query: StateQuery, reply: list[bytes | None]) -> tuple[int, ...]:
        """Return one count for each window, from the times in a reply."""
        counted, series, at = self._counted, self._series, query.at
        width = len(series)
        # The indexes of the first series. A prefix is its visitor without an account and everyone else there.
        network = _RECORDS + width * (2 if counted.by_prefix else 1)
        prefix = network + (width if query.network else 0) if query.visitor != query.prefix else _RECORDS
        starts = {"visitor": (_RECORDS,), "network": (network,), "prefix": (prefix, _RECORDS + width)}
        times: dict[int, array[float]] = {}
        counts = []
        for by, kinds, seconds in counted.windows:
            total = 0
            for start in starts[by]:
                for kind in kinds:
                    place = start + series[kind]
                    data = reply[place]
                    if not data:
                        continue
                    hits = times.get(place)
                    if hits is None:
                        hits = times[place] = _hits(data)
                    total += count_hits(hits, at, seconds)
            counts.append(total)
        return tuple(counts)
