"""A link to Redis that is closed leaves no socket to the collector, even where the loop ends in the same breath."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hedgerow.state.redis import loop_connection, thread_connection
from hedgerow.state.redis.address import parse_redis_address
from hedgerow.state.redis.loop_connection import LoopConnection
from hedgerow.state.redis.thread_connection import ThreadConnection


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A Redis that answers the first words, with nothing where *answer* is empty, and then hears no more."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connected, _ = server.accept()
            with connected:
                connected.recv(65536)
                connected.sendall(answer)
                done.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.getsockname()[1]}"
        finally:
            done.set()
            thread.join()


def left_open(play: Callable[[LoopConnection], object], url: str) -> list[str]:
    """What the collector says after a link was opened, played with and closed in a loop of its own."""

    async def whole() -> None:
        link = LoopConnection(parse_redis_address(url), lambda: [("PING",)])
        await link.open()
        play(link)
        await link.close()

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loop = asyncio.new_event_loop()
        loop.run_until_complete(whole())
        loop.close()
        gc.collect()
    return [str(warning.message) for warning in said]


def test_one_that_has_more_to_say_than_is_heard():
    with answering(b"+PONG\r\n") as url:
        assert left_open(lambda link: link.send(("SET", "x", "y" * 20_000_000)), url) == []


def test_one_that_was_never_answered(monkeypatch):
    monkeypatch.setattr(loop_connection, "CONNECT_TIMEOUT", 0.05)
    with answering(b"") as url:
        assert left_open(lambda _: None, url) == []


def test_one_of_a_thread_to_a_socket_at_which_nobody_listens(tmp_path, monkeypatch):
    # What is logged holds on to the error, and that to all that was there.
    monkeypatch.setattr(thread_connection.log, "disabled", True)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        link = ThreadConnection(parse_redis_address(f"unix://{tmp_path}/redis.sock"), list)
        link.close()
        gc.collect()
    assert link.unavailable
    assert [str(warning.message) for warning in said] == []
