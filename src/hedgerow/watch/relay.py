"""
Transport of visits to a watch in another process.

`Relay` queues the visits of a gate, and a thread delivers them in batches. When the queue is full, visits are dropped
and the watch learns whose: a session with a gap is worthless. `send_to` and `Intake` connect processes on one
machine by datagrams over an inherited socket pair, so that either side can be restarted.
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
"""Delivers visits, and the names of visitors with dropped visits. Returns false if delivery is not possible now."""

_PAUSE = 0.05
_MAX_BATCH = 200
_MAX_MISSED = 100_000
_MAX_DATAGRAM = 60_000
_SEND_BUFFER = 4_194_304
_TIMEOUT = 0.5
_GATHER = 0.02


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Visits with their decisions, and visitors of whom some visits were dropped."""

    seen: tuple[Seen, ...]
    missed: tuple[str, ...] = ()


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Batch)


def encode(seen: Sequence[Seen], missed: Sequence[str] = ()) -> bytes:
    """Encode a batch. A decision's score update is already applied, and is not sent."""
    without_change = tuple(
        (visit, msgspec.structs.replace(d, change=None) if d.change is not None else d) for visit, d in seen
    )
    return _ENCODER.encode(Batch(without_change, tuple(missed)))


def decode(data: bytes) -> Batch:
    return _DECODER.decode(data)


class Relay:
    """Queues at most *queue* visits of a gate and has a thread deliver them. `close` also calls *on_close*."""

    def __init__(self, deliver: Deliver, *, queue: int = 10_000, on_close: Callable[[], None] | None = None) -> None:
        self._on_close = on_close
        self._deliver = deliver
        self._queue = queue
        self._waiting: deque[Seen] = deque()
        self._missed: set[str] = set()
        self._wake = threading.Event()
        self._stop = False
        self.left_out = 0
        """Visits that were dropped because the queue was full."""
        self._thread = threading.Thread(target=self._run, name="hedgerow-relay", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, visit: Visit, decision: Decision) -> None:
        """Queue a visit for the watch. Never blocks."""
        if len(self._waiting) >= self._queue:
            self._drop(visit.visitor)
            return
        self._waiting.append((visit, decision))
        if not self._wake.is_set():
            self._wake.set()

    def close(self) -> None:
        self._stop = True
        self._wake.set()
        self._thread.join()
        if self._on_close is not None:
            self._on_close()

    def _drop(self, visitor: str) -> None:
        self.left_out += 1
        if len(self._missed) < _MAX_MISSED:
            self._missed.add(visitor)

    def _run(self) -> None:
        while not self._stop:
            self._wake.wait()
            if not self._stop:
                # Wait a moment, so that visits are delivered in batches.
                time.sleep(_PAUSE)
            self._wake.clear()
            while self._waiting or self._missed:
                if not self._deliver_batch() and self._stop:
                    return

    def _deliver_batch(self) -> bool:
        batch = [self._waiting.popleft() for _ in range(min(_MAX_BATCH, len(self._waiting)))]
        missed = list(self._missed)
        self._missed.difference_update(missed)
        try:
            if self._deliver(batch, missed):
                return True
        except Exception:
            log.exception("cannot deliver visits to the watch")
        if self._stop:
            return False
        self._missed.update(missed)
        if len(self._waiting) + len(batch) <= self._queue:
            self._waiting.extendleft(reversed(batch))
        else:
            for visit, _ in batch:
                self._drop(visit.visitor)
        time.sleep(_PAUSE)
        return False


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return a sending socket for all workers, and the receiving socket of the watch."""
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    sender.settimeout(_TIMEOUT)
    return sender, receiver


def send_to(sender: socket.socket) -> Deliver:
    """Return a `Deliver` over *sender*. Large batches are split; a visit too large for a datagram is dropped."""

    def deliver(seen: Sequence[Seen], missed: Sequence[str]) -> bool:
        data = encode(seen, missed)
        if len(data) > _MAX_DATAGRAM:
            if len(seen) > 1:
                half = len(seen) // 2
                return deliver(seen[:half], missed) and deliver(seen[half:], ())
            if len(missed) > 1:
                half = len(missed) // 2
                return deliver((), missed[:half]) and deliver(seen, missed[half:])
            data = encode((), [*missed, *(visit.visitor for visit, _ in seen)])
        try:
            sender.send(data)
        except (TimeoutError, BlockingIOError, ConnectionError):
            return False
        return True

    return deliver


class Intake:
    """Receives on *receiver* in a thread. Passes visits to *add*, and visitors with dropped visits to *miss*."""

    def __init__(
        self, receiver: socket.socket, add: Callable[[Visit, Decision], None], miss: Callable[[str], None]
    ) -> None:
        self._socket = receiver
        self._add = add
        self._miss = miss
        self._stop = False
        receiver.settimeout(_TIMEOUT)
        self._thread = threading.Thread(target=self._run, name="hedgerow-intake", daemon=True)
        self._thread.start()

    def close(self) -> None:
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
                # Requests of one visitor may go to several workers. Wait for their datagrams, and sort all by time.
                time.sleep(_GATHER)
            batches = [first, *self._receive_rest()]
            for batch in batches:
                for visitor in batch.missed:
                    self._miss(visitor)
            for visit, decision in sorted((s for b in batches for s in b.seen), key=lambda seen: seen[0].at):
                self._add(visit, decision)

    def _receive(self, flags: int = 0) -> Batch | None:
        with contextlib.suppress(TimeoutError, BlockingIOError, msgspec.MsgspecError):
            return decode(self._socket.recv(_MAX_DATAGRAM * 2, flags))
        return None

    def _receive_rest(self) -> Iterator[Batch]:
        for _ in range(_MAX_BATCH):
            batch = self._receive(socket.MSG_DONTWAIT)
            if batch is None:
                return
            yield batch
