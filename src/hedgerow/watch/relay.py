"""
Visits on their way to a watch in another process.

`Relay` takes them from a gate: a request only leaves its visit in a queue, and a thread delivers them in batches. When
the queue is full visits are left out, and the watch is told whose: a session with a hole is worth nothing. `send_to`
and `Intake` are the way between processes of one machine: datagrams over a pair of sockets that all of them inherit,
so that either side may end and be started again.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import msgspec

from hedgerow.core.decision import Decision
from hedgerow.core.visit import Visit

log = logging.getLogger(__name__)

Seen = tuple[Visit, Decision]
Deliver = Callable[[Sequence[Seen], Sequence[str]], bool]
"""Takes visits, and the visitors of whom some were left out; false where it could not take them now."""

_PAUSE = 0.05
_BATCH = 200
_MOST_MISSED = 100_000
_DATAGRAM = 60_000
_BUFFER = 4_194_304
_PATIENCE = 0.5
_GATHER = 0.02


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """What is on its way: visits with what was decided, and visitors of whom some were left out."""

    seen: tuple[Seen, ...]
    missed: tuple[str, ...] = ()


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Batch)


def encode(seen: Sequence[Seen], missed: Sequence[str] = ()) -> bytes:
    """A batch as bytes. What a decision changes in a standing is done already, and stays here."""
    plain = tuple((visit, msgspec.structs.replace(d, change=None) if d.change is not None else d) for visit, d in seen)
    return _ENCODER.encode(Batch(plain, tuple(missed)))


def decode(data: bytes) -> Batch:
    return _DECODER.decode(data)


class Relay:
    """Takes visits from a gate, at most *queue* of them waiting, and has them delivered. Closes with *then*."""

    def __init__(self, deliver: Deliver, *, queue: int = 10_000, then: Callable[[], None] | None = None) -> None:
        self._then = then
        self._deliver = deliver
        self._queue = queue
        self._waiting: deque[Seen] = deque()
        self._missed: set[str] = set()
        self._wake = threading.Event()
        self._stop = False
        self.left_out = 0
        """Visits that were not delivered because there were too many."""
        self._thread = threading.Thread(target=self._run, name="hedgerow-relay", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, visit: Visit, decision: Decision) -> None:
        """Leave a visit to the watch. Never waits."""
        if len(self._waiting) >= self._queue:
            self._leave_out(visit.visitor)
            return
        self._waiting.append((visit, decision))
        if not self._wake.is_set():
            self._wake.set()

    def close(self) -> None:
        """Deliver what waits, and stop."""
        self._stop = True
        self._wake.set()
        self._thread.join()
        if self._then is not None:
            self._then()

    def _leave_out(self, visitor: str) -> None:
        self.left_out += 1
        if len(self._missed) < _MOST_MISSED:
            self._missed.add(visitor)

    def _run(self) -> None:
        while not self._stop:
            self._wake.wait()
            if not self._stop:
                # Not for every single visit: some come together.
                time.sleep(_PAUSE)
            self._wake.clear()
            while self._waiting or self._missed:
                if not self._deliver_some() and self._stop:
                    return

    def _deliver_some(self) -> bool:
        batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
        missed = list(self._missed)
        self._missed.difference_update(missed)
        try:
            if self._deliver(batch, missed):
                return True
        except Exception:
            log.exception("visits cannot be told to the watch")
        if self._stop:
            return False
        self._missed.update(missed)
        if len(self._waiting) + len(batch) <= self._queue:
            self._waiting.extendleft(reversed(batch))
        else:
            for visit, _ in batch:
                self._leave_out(visit.visitor)
        time.sleep(_PAUSE)
        return False


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends: one on which all workers send, one on which the watch listens."""
    sending, listening = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    sending.settimeout(_PATIENCE)
    return sending, listening


def send_to(sending: socket.socket) -> Deliver:
    """Delivers by *sending*; a batch too large for a datagram is cut in two, and a visit too large is left out."""

    def deliver(seen: Sequence[Seen], missed: Sequence[str]) -> bool:
        data = encode(seen, missed)
        if len(data) > _DATAGRAM:
            if len(seen) > 1:
                half = len(seen) // 2
                return deliver(seen[:half], missed) and deliver(seen[half:], ())
            if len(missed) > 1:
                half = len(missed) // 2
                return deliver((), missed[:half]) and deliver(seen, missed[half:])
            data = encode((), [*missed, *(visit.visitor for visit, _ in seen)])
        try:
            sending.send(data)
        except (TimeoutError, BlockingIOError, ConnectionError):
            return False
        return True

    return deliver


class Intake:
    """Listens on *listening* in a thread: visits go to *add*, visitors of whom some are missing to *miss*."""

    def __init__(
        self, listening: socket.socket, add: Callable[[Visit, Decision], None], miss: Callable[[str], None]
    ) -> None:
        self._socket = listening
        self._add = add
        self._miss = miss
        self._stop = False
        listening.settimeout(_PATIENCE)
        self._thread = threading.Thread(target=self._run, name="hedgerow-intake", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take what is there, and stop."""
        self._stop = True
        self._thread.join()

    def _run(self) -> None:
        while True:
            first = self._receive()
            if first is None:
                if self._stop:
                    return
                continue
            if not self._stop:
                # A visitor's requests may go to several workers: a moment later theirs are here as well.
                time.sleep(_GATHER)
            batches = [first, *self._rest()]
            for batch in batches:
                for visitor in batch.missed:
                    self._miss(visitor)
            for visit, decision in sorted((s for b in batches for s in b.seen), key=lambda seen: seen[0].at):
                self._add(visit, decision)

    def _receive(self, flags: int = 0) -> Batch | None:
        with contextlib.suppress(TimeoutError, BlockingIOError, msgspec.MsgspecError):
            return decode(self._socket.recv(_DATAGRAM * 2, flags))
        return None

    def _rest(self) -> Iterator[Batch]:
        for _ in range(_BATCH):
            batch = self._receive(socket.MSG_DONTWAIT)
            if batch is None:
                return
            yield batch
