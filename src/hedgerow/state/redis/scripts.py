"""
What is said to Redis and what it answers: one script for each question of the state, its arguments, its reply.

Here is no connection. The windows, limits and the prefix of all keys stand in the scripts' text, so that a visit sends
no more than itself; settings that are read again make other scripts.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from itertools import pairwise
from typing import Any, Literal

import msgspec

from hedgerow.core.decision import Block, Identity, ScoreUpdate, VisitorScore
from hedgerow.core.rate_limit import RATE_HALF_LIFE, RATE_PER_VISIT, RateLimit, count_hits, series_of
from hedgerow.core.state import StateQuery, StateReply
from hedgerow.core.visit import Kind
from hedgerow.state.hit_times import Counted

_SLACK = 60.0
_TIME = struct.Struct("<d")
_TOLD = 3
_WORDS_BESIDES = 16
_MOST_ENDS = 1000
_WHOSE = {"visitor": 0, "everyone": 1, "network": 2, "prefix": 3, "": 4}
_STANDING_COST = 700
_OF_A_DAY = frozenset({"page", "call"})

Command = tuple[bytes | str | int | float, ...] | bytes
"""A command and its arguments; or how it goes over the wire."""


class _Standing(msgspec.Struct, array_like=True, gc=False):
    identity: Identity
    suspicion: float
    at: float
    day: int
    wrong: int
    challenges: int
    reasons: tuple[tuple[str, int], ...]

    def plain(self) -> VisitorScore:
        return VisitorScore(self.identity, self.suspicion, self.at, self.day, self.wrong, self.challenges, self.reasons)


class _More(msgspec.Struct, array_like=True, gc=False):
    strikes: int
    today: int
    score: _Standing | bool
    entries: tuple[str, ...]
    offences: tuple[tuple[str, int], ...]
    site_rate: float


class RedisRecord(msgspec.Struct):
    """What is known of a key, as the scripts keep it."""

    k: str
    b: str | None = None
    s: _Standing | None = None

    @property
    def block(self) -> Block | None:
        return msgspec.json.decode(self.b, type=Block) if self.b is not None else None

    @property
    def score(self) -> VisitorScore | None:
        return self.s.plain() if self.s is not None else None


_RECORD = msgspec.msgpack.Decoder(RedisRecord)
_MORE = msgspec.msgpack.Decoder(_More)
_BLOCK = msgspec.json.Decoder(Block)


def _hits(data: bytes) -> array[float]:
    """The times of a counter, sorted: visits may have come late."""
    hits = array("d", data)
    if any(a > b for a, b in pairwise(hits)):
        hits = array("d", sorted(hits))
    return hits


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


class _Form:
    """
    The question about a visit as it goes over the wire, but for who it is about.

    There is one for visits with an account and one without, with a network and without: which keys are asked for is the
    same in each. What follows the keys is one of few texts, and kept.
    """

    def __init__(self, prefix: str, script: str, counted: Counted, *, other: bool, network: bool) -> None:
        own, counters = prefix.encode(), [b"c%d:" % series for series in sorted(counted.series)]
        keys = [(b"m:", "visitor"), (b"m:", "everyone"), (b"m:", "network") if network else (b"-", "")]
        # Whose visit it is, by where their counters begin; those of a prefix are of its visitor alone.
        self._starts = [len(keys) + 1]
        keys += [(counter, "visitor") for counter in counters]
        if counted.by_prefix:
            if other:
                self._starts.append(len(keys) + 1)
            keys += [(counter, "everyone") for counter in counters]
        if network:
            self._starts.append(len(keys) + 1)
            keys += [(counter, "network") for counter in counters]
        if counted.by_prefix and other:
            keys += [(counter, "prefix") for counter in counters]
        self._places = {series: place for place, series in enumerate(sorted(counted.series))}
        words = len(keys) + _WORDS_BESIDES
        start = f"*{words}\r\n$7\r\nEVALSHA\r\n$40\r\n{script}\r\n${len(str(len(keys)))}\r\n{len(keys)}\r\n"
        self._form = start.encode() + b"".join(
            b"$%d\r\n" + (own + name).replace(b"%", b"%%") + b"%b\r\n" for name, _ in keys
        )
        self._keys = tuple((len(own) + len(name), _WHOSE[whose]) for name, whose in keys)
        self._other = other
        self._own = own
        self._ends: dict[tuple[int, int, int, int, int], bytes] = {}

    def filled(
        self,
        at: float,
        visitor: bytes,
        prefix: bytes,
        network: bytes,
        *,
        day: int,
        more: int,
        written: int,
        taken: int,
        site: int,
    ) -> bytes:
        """
        The question about one visit. *written* and *taken* are series, or -1. *site* is how many visits are added to
        the rate of the whole site, or -1 where that is not asked for.
        """
        names = (visitor, prefix + b"/*", network, prefix, b"")
        values: list[int | bytes] = []
        for length, whose in self._keys:
            name = names[whose]
            values += (length + len(name), name)
        when = repr(at).encode()
        end = self._ends.get((day, more, written, taken, site))
        if end is None:
            end = self._end(day, more, written, taken, site)
        strikes = self._own + b"x:" + prefix if self._other else b""
        of_day = self._own + b"d:" + visitor if day else b""
        values += (len(when), when, _TIME.pack(at), len(strikes), strikes, len(of_day), of_day)
        return (self._form + b"$%d\r\n%b\r\n$8\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n") % tuple(values) + end

    def _end(self, day: int, more: int, written: int, taken: int, site: int) -> bytes:
        words = [day, more]
        for series in (written, taken):
            place = self._places.get(series)
            numbers = [start + place for start in self._starts] if place is not None else []
            words += [*numbers, 0, 0, 0][:3]
        words.append(site)
        end = b"".join(b"$%d\r\n%d\r\n" % (len(str(word)), word) for word in words)
        if len(self._ends) >= _MOST_ENDS:
            self._ends.clear()
        self._ends[day, more, written, taken, site] = end
        return end


class Scripts:
    """The scripts for these windows and limits: what to send, and what the replies mean."""

    def __init__(
        self, prefix: str, windows: Sequence[RateLimit], *, memory: int, most_blocks: int, remember: float
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

    def use(self, windows: Sequence[RateLimit]) -> None:
        """Count for these windows from now on."""
        counted = self._counted = Counted(windows)
        self._series = {series: place for place, series in enumerate(sorted(counted.series))}
        self.recall_script = Script(
            f"local P, KEEP, LONGEST, TTL = {_lua(self.prefix)}, {_number(counted.keep)}, {counted.most * 8}, "
            f"{int((counted.keep + _SLACK) * 1000)}\n"
            f"local RATE_HALF_LIFE, RATE_PER_VISIT = {_number(RATE_HALF_LIFE)}, {_number(RATE_PER_VISIT)}\n"
            + _text("recall")
        )
        self._forms = {
            (other, network): _Form(self.prefix, self.recall_script.name, counted, other=other, network=network)
            for other in (False, True)
            for network in (False, True)
        }

    def all(self) -> tuple[Script, ...]:
        return (self.recall_script, self.commit_script, self.amend_script, self.forgive_script)

    # ---- What to send

    def record_visit(self, question: StateQuery, claimed: Kind | None = None) -> bytes:
        """Ask about a visit, and count it; one that was *claimed* to be of another kind is taken back there."""
        visitor, prefix, network = text(question.visitor), text(question.prefix), text(question.network)
        form = self._forms[visitor != prefix, network != b""]
        more = int(question.kind in _OF_A_DAY)
        taken = -1
        if claimed is not None:
            more -= claimed in _OF_A_DAY
            taken = series_of(claimed)
        return form.filled(
            question.at, visitor, prefix, network,
            day=question.day if question.count else 0, more=more,
            written=series_of(question.kind) if question.count else -1, taken=taken,
            site=int(claimed is None) if question.site_rate and question.count else -1,
        )  # fmt: skip

    def commit(self, block: Block) -> Command:
        return self.commit_script.call(
            text(block.key), text(block.prefix), _number(block.since), _number(block.until), block.offence,
            msgspec.json.encode(block),
        )  # fmt: skip

    def update_score(self, change: ScoreUpdate) -> Command:
        return self.amend_script.call(
            text(change.key), _number(change.at), change.day, _number(change.half_life), _number(change.weight),
            int(change.suspicious), int(change.challenged), int(change.cleared), change.identity, text(change.entry),
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

    def memory(self, question: StateQuery, reply: Any) -> StateReply:
        """The answer to `record_visit`."""
        if type(reply) is bytes:
            return StateReply(_BLOCK.decode(reply), ())
        counts = self._counts(question, reply) if question.count and series_of(question.kind) in self._series else ()
        if reply[0] is None:
            return StateReply(None, counts)
        more = _MORE.decode(reply[0])
        score = more.score.plain() if isinstance(more.score, _Standing) else None
        return StateReply(None, counts, more.strikes, score, more.today, more.entries, more.offences, more.site_rate)

    def _counts(self, question: StateQuery, reply: list[bytes | None]) -> tuple[int, ...]:
        """One count for each window, from the times that were told."""
        counted, series, at = self._counted, self._series, question.at
        width = len(series)
        # Where the series of each begin; a prefix is its visitor without an account and everyone else there.
        network = _TOLD + width * (2 if counted.by_prefix else 1)
        prefix = network + (width if question.network else 0) if question.visitor != question.prefix else _TOLD
        times: dict[int, array[float]] = {}
        counts = []
        for by, kinds, seconds in counted.windows:
            starts = (_TOLD,) if by == "visitor" else (network,) if by == "network" else (prefix, _TOLD + width)
            total = 0
            for start in starts:
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

    @staticmethod
    def record(reply: bytes) -> RedisRecord:
        return _RECORD.decode(reply)
