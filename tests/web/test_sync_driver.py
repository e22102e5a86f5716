"""Coroutines run step by step in threads: what they send, what blocks, and what becomes of those that are dropped."""

from __future__ import annotations

import gc
import threading

import pytest

from hedgerow.web.sync_driver import IN_THREAD, StepLock, blocking, drive, send


async def sender(count: int, log: list[str], name: str = "") -> None:
    try:
        for n in range(count):
            await send({"type": "number", "number": n})
    finally:
        log.append("closed" + name)


def bounded(function) -> None:
    """Run *function* in a thread, for ten seconds at the most."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "deadlock"


def test_messages_come_as_they_are_sent_and_what_blocks_runs_without_the_lock():
    lock, free = StepLock(), []

    async def run() -> None:
        await send({"type": "first"})
        free.append(await blocking(lock._lock.locked))
        await IN_THREAD.sleep(0.0)
        await send({"type": "second"})

    assert [message["type"] for message in drive(run(), lock)] == ["first", "second"]
    assert free == [False]
    assert not lock._running


def test_an_exception_of_what_blocks_reaches_the_coroutine_and_its_own_reaches_the_caller():
    lock, seen = StepLock(), []

    def fail() -> None:
        raise LookupError("first")

    async def run() -> None:
        try:
            await blocking(fail)
        except LookupError as error:
            seen.append(str(error))
        raise ValueError("second")

    with pytest.raises(ValueError, match="second"):
        list(drive(run(), lock))
    assert seen == ["first"]
    assert not lock._running


def test_a_coroutine_that_is_collected_under_the_lock_is_closed_when_the_lock_is_released():
    lock, log = StepLock(), []
    messages = drive(sender(3, log), lock)
    next(messages)

    def collect() -> None:
        nonlocal messages
        with lock:
            messages = None
            assert log == []
        assert log == ["closed"]

    bounded(collect)
    assert not lock._running


def test_a_coroutine_of_a_cycle_is_never_finalized_by_the_collector_itself():
    """The collector finalizes the objects of a cycle in any order: the coroutine must not be among them."""
    lock, log = StepLock(), []
    cycle = [drive(sender(3, log), lock)]
    cycle.append(cycle)
    next(cycle[0])
    with lock:
        del cycle
        gc.collect()
        assert log == []
    assert log == ["closed"]


def test_a_coroutine_that_is_closed_while_another_thread_holds_the_lock_is_closed_by_that_thread():
    lock, log = StepLock(), []
    messages = drive(sender(3, log), lock)
    next(messages)
    held, closed, seen = threading.Event(), threading.Event(), []

    def hold() -> None:
        with lock:
            held.set()
            assert closed.wait(10)
            seen.append(list(log))
        seen.append(list(log))

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    messages.close()
    closed.set()
    thread.join(10)
    assert seen == [[], ["closed"]]


def test_a_thread_that_runs_no_steps_leaves_closing_to_the_next_step():
    """The watch, say: it may hold the lock of a store that closing a request needs as well."""
    lock, log = StepLock(), []
    messages = drive(sender(3, log), lock)
    next(messages)
    bounded(messages.close)
    assert log == []
    assert len(list(drive(sender(1, log, " the next"), lock))) == 1
    assert log == ["closed", "closed the next"]


def test_one_that_cannot_be_closed_stops_no_other(caplog):
    lock, log = StepLock(), []

    async def stubborn() -> None:
        try:
            await send({"type": "one"})
        finally:
            raise ValueError("not now")

    first, second = drive(stubborn(), lock), drive(sender(2, log), lock)
    next(first)
    next(second)
    with lock:
        first.close()
        second.close()
    assert log == ["closed"]
    assert "could not be closed" in caplog.text
    assert not lock._running


def test_many_threads_that_drop_what_they_began_leave_nothing_behind():
    lock, log = StepLock(), []

    def drop() -> None:
        for n in range(200):
            messages = drive(sender(3, log), lock)
            next(messages)
            if n % 2:
                messages.close()

    threads = [threading.Thread(target=drop, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    with lock:
        pass
    assert log == ["closed"] * 1600
    assert not lock._running
