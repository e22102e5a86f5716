"""SPOP, as HAProxy speaks it: numbers, frames, and what is no frame. How it answers HAProxy itself is in tests/real."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.services.spoe import FrameError, FrameReader, Spoe, frame, number, text

HELLO = text(b"supported-versions") + b"\x08" + text(b"2.0") + text(b"max-frame-size") + b"\x03" + number(16_380)
VISIT = (
    text(b"visit") + b"\x04" + text(b"src") + b"\x06\xc0\x00\x02\x01" + text(b"method") + b"\x08" + text(b"GET")
    + text(b"uri") + b"\x08" + text(b"/a?b=c")
    + text(b"headers") + b"\x09" + text(text(b"Host") + text(b"shop.example") + text(b"") + text(b""))
)  # fmt: skip


@given(st.integers(0, 2**62))
def test_numbers_go_there_and_back(value):
    assert FrameReader(number(value)).number() == value


@given(st.binary(max_size=200))
def test_whatever_comes_is_a_value_or_broken(data):
    read = FrameReader(data)
    try:
        while read:
            read.value()
    except FrameError:
        pass


def talk(*frames: bytes, answer: str = "", trusted: bool = True) -> tuple[bytes, list]:
    """What is said to *frames*, and what was asked."""
    asked = []

    async def question(scope):
        asked.append(scope)
        return answer

    async def play() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as bound:
            spoe = Spoe(question, lambda _: trusted)
            await spoe.start(bound)
            reader, writer = await asyncio.open_connection(*bound.getsockname())
            writer.write(b"".join(frames))
            writer.write_eof()
            said = b""
            with contextlib.suppress(ConnectionError):
                # Who hangs up before all is read resets the connection.
                said = await reader.read()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            await spoe.close()
            return said

    return asyncio.run(play()), asked


def test_a_visit_is_asked_about_and_acknowledged():
    said, asked = talk(frame(1, 0, 0, HELLO), frame(3, 7, 1, VISIT))
    assert b"2.0" in said
    assert said.endswith(frame(103, 7, 1, b""))
    (scope,) = asked
    assert (scope["client"], scope["method"], scope["raw_path"], scope["query_string"]) == (
        ("192.0.2.1", 0), "GET", b"/a", b"b=c",
    )  # fmt: skip
    assert scope["headers"] == [(b"host", b"shop.example")]


def test_who_is_not_let_in_gets_a_variable():
    said, _ = talk(frame(3, 7, 1, VISIT), answer="name")
    assert said == frame(103, 7, 1, b"\x01\x03\x02" + text(b"ref") + b"\x08" + text(b"name"))


def test_a_stranger_is_hung_up_on():
    said, asked = talk(frame(3, 7, 1, VISIT), trusted=False)
    assert (said, asked) == (b"", [])


@pytest.mark.parametrize(
    "sent",
    [b"\xff\xff\xff\xff", b"\x00\x00\x00\x01x", frame(99, 0, 0, b""), frame(3, 1, 1, VISIT[:-9]),
     frame(3, 1, 1, text(b"visit") + b"\x00"), b"GET / HTTP/1.1\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_frame_ends_the_talk_and_lets_nobody_in(sent):
    said, asked = talk(sent)
    assert (said, asked) == (b"", [])


def test_good_bye_is_answered():
    said, _ = talk(frame(2, 0, 0, b""))
    assert said[4] == 102
