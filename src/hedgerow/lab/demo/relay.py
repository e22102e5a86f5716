"""
A hop that gives a client another address: `python -m hedgerow.lab.demo.relay PORT ADDRESS`.

For crawlers that cannot choose one themselves. What comes in goes on to PORT from ADDRESS; the hop's own port is the
one line that it prints.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

_HOST = "127.0.0.1"
_PIECE = 65_536


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def _relay(port: int, address: str) -> None:
    async def hop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection(_HOST, port, local_addr=(address, 0))
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass_on(reader, there[1]), _pass_on(there[0], writer))
        writer.close()
        there[1].close()

    server = await asyncio.start_server(hop, _HOST, 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_relay(int(sys.argv[1]), sys.argv[2]))
