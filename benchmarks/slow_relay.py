"""Relay the connections of a port to another one, and pass on what clients send after a delay.

usage: python benchmarks/slow_relay.py PORT TARGET_PORT DELAY_S

The delay is added to each round trip; it does not limit the bytes per second, since what comes back is not delayed.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

_READ_BYTES = 1 << 18


async def relay(port: int, target_port: int, delay_s: float) -> None:
    """Serve until the process ends."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", target_port)
            await asyncio.gather(_delay(reader, target_writer, delay_s), _pass_on(target_reader, writer))

    async with await asyncio.start_server(connected, "127.0.0.1", port) as server:
        await server.serve_forever()


async def _delay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            loop.call_later(delay_s, writer.write, data)
    loop.call_later(delay_s, writer.close)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(relay(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
