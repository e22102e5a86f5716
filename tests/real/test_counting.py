"""A counter loses nothing, however many ask at once."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable

from .servers import Nginx, Protect

COUNT = 500
CLIENTS = 64
EACH = 20


def test_exactly_the_allowed_number_passes(
    site: Nginx, protect: Callable[..., Protect], address: Callable[[], str]
) -> None:
    # Only the window may decide. The budget of a program is smaller, and so is the limit at a slow site.
    windows = f'[density]\nsite_seconds = 0\nwindows = [{{count = {COUNT}, seconds = 600, of = "pages"}}]\n'
    hedgerow = protect(site.url, settings=f"{windows}[containment]\nk1 = 5000\nk2 = 5000\n")
    who = address()
    got: Counter[int] = Counter()

    async def client() -> None:
        """One connection, kept: a library that shares them would not ask 64 times at once."""
        reader, writer = await asyncio.open_connection("127.0.0.1", hedgerow.port, local_addr=(who, 0))
        for _ in range(EACH):
            writer.write(b"GET /tutorial-join.html HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = re.search(rb"\r\ncontent-length: (\d+)", head)
            assert length is not None
            await reader.readexactly(int(length[1]))
            status = int(head.split()[1])
            got[status] += 1
            assert (b"\r\nhedgerow-decision: " in head) == (status == 429)
        writer.close()
        await writer.wait_closed()

    async def everybody() -> None:
        await asyncio.gather(*(client() for _ in range(CLIENTS)))

    asyncio.run(everybody())
    assert got == {200: COUNT, 429: CLIENTS * EACH - COUNT}
    hedgerow.stop()
    visits = hedgerow.visits()
    assert Counter(visit["action"] for visit in visits) == {"pass": COUNT, "refuse": CLIENTS * EACH - COUNT}
