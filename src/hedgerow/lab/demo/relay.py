"""
A TCP relay that gives a client another address: `python -m hedgerow.lab.demo.relay PORT ADDRESS`.

It is for crawlers that cannot choose their address. It connects to PORT from ADDRESS, and prints its own port.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

_HOST = "127.0.0.1"
_CHUNK = 65_536


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def _relay(port: int, address: str) -> None:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection(_HOST, port, local_addr=(address, 0))
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, upstream[1]), _copy(upstream[0], writer))
        writer.close()
        upstream[1].close()

    server = await asyncio.start_server(forward, _HOST, 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_relay(int(sys.argv[1]), sys.argv[2]))
