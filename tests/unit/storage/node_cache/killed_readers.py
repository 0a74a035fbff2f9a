"""Processes that read through a cache until they are killed; run by the tests as a script.

Arguments: the folder, the number of kills, the processes at a time, 1 to forbid files without names, and the seed.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import sys
import time
from collections.abc import Callable

from loader.storage.node_cache import block_cache as cache_module
from loader.storage.node_cache.block_cache import BlockCache, RemoteObject
from loader.storage.node_cache.node_cache import block_cache
from loader.storage.node_cache.private_folder import CacheSettings

OBJECTS, SIZE_BYTES, LIMIT_BYTES = 40, 300_000, 6_000_000
UNSEEN_BYTES = 500_000  # that a process adds before it counts again; 64 MiB outside of tests


@functools.cache
def content_of(number: int) -> bytes:
    return random.Random(number).randbytes(SIZE_BYTES)


def read_for(cache: BlockCache, choice: random.Random, stop_s: float = float("inf"), reads: int = 1 << 60) -> int:
    """Read random ranges, and return the number of wrong ones, at most 1."""
    wrong = 0
    while not wrong and reads and time.monotonic() < stop_s:
        reads -= 1
        number = choice.randrange(OBJECTS)
        start = choice.randrange(SIZE_BYTES)
        stop = min(SIZE_BYTES, start + choice.choice([10, 10_000, SIZE_BYTES]))
        source = RemoteObject("https://host\0s3://bucket/object", f"v{number}", SIZE_BYTES)
        content = content_of(number)
        wrong += cache.read(source, start, stop, _fetch_of(content)) != content[start:stop]
    return wrong


def _fetch_of(content: bytes) -> Callable[[int, int], bytes]:
    def fetch(start: int, stop: int) -> bytes:
        time.sleep(0.0005)
        return content[start:stop]

    return fetch


def _open(folder: str) -> BlockCache:
    cache = block_cache(CacheSettings(folder=folder, limit_bytes=LIMIT_BYTES, free_bytes=0))
    if cache is None:
        raise SystemExit("the cache cannot be opened")
    return cache


def _start(folder: str, seed: int) -> int:
    child = os.fork()
    if not child:
        os._exit(1 if read_for(_open(folder), random.Random(seed), time.monotonic() + 60) else 0)
    return child


def _kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"a process read wrong bytes, or failed: {status}")


def main() -> None:
    """Kill processes at random moments, then read everything."""
    cache_module._UNSEEN_BYTES = UNSEEN_BYTES
    folder, kills, at_once = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if sys.argv[4] == "1":
        del os.O_TMPFILE
        cache_module._PARTIAL_AGE_S = 0.1  # type: ignore[assignment]  # those of killed processes would fill so small a cache
    choice = random.Random(int(sys.argv[5]))
    running = [_start(folder, seed) for seed in range(at_once)]
    for seed in range(at_once, kills + at_once):
        time.sleep(choice.uniform(0, 0.02))
        _kill(running.pop(choice.randrange(len(running))))
        running.append(_start(folder, seed))
    for child in running:
        _kill(child)
    print(kills, read_for(_open(folder), choice, reads=1000))


if __name__ == "__main__":
    main()
