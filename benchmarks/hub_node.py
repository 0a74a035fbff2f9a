"""A process of a simulated node that reads samples from a repository of the hub in a run's order.

usage: python benchmarks/hub_node.py URL LANES FIRST READERS SECONDS RATE

It lists the repository as any dataset does, then its readers take the samples of lanes FIRST, FIRST + 1, … of a run
with LANES lanes, RATE samples a second each. It prints what they did as one line of JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import numpy as np
from hub_data import SAMPLE_BYTES, SAMPLES

from loader.order.source_order import SourceOrder
from loader.order.stream_order import RepeatedOrder
from loader.storage import FileInfo, Storage, StoredFile, open_storage
from loader.storage.remote.clients.hub.request_pace import RequestPace

_SLICE, _BUFFER = 100, 1000  # as examples of training have them
_SLOW_S = 1.0  # reads that take longer have waited for an address


class Reader(threading.Thread):
    """Read the samples of a lane."""

    def __init__(
        self, storage: Storage, files: list[FileInfo], order: RepeatedOrder, lane: int, *, end_s: float, rate: float
    ) -> None:
        super().__init__()
        self._storage, self._files, self._lane = storage, files, order.lane(lane)
        self._end_s, self._rate = end_s, rate
        self.reads, self.slow_s, self.read_s, self.faults = 0, 0.0, 0.0, list[str]()
        self.first_s = 0.0

    def run(self) -> None:
        opened: dict[int, StoredFile] = {}
        started = time.monotonic()
        while (now := time.monotonic()) < self._end_s:
            _, _, sample = self._lane.locate(self.reads, self.reads + 1)
            shard, position = divmod(int(sample[0]), SAMPLES)
            if shard not in opened:
                opened[shard] = self._storage.open(self._files[shard].name, self._files[shard])
                opened[shard].expect_few()
            try:
                data = opened[shard].read_at(position * (SAMPLE_BYTES + 512) + 512, SAMPLE_BYTES)
                assert len(data) == SAMPLE_BYTES
            except Exception as error:  # noqa: BLE001 - counted, and shown
                self.faults.append(str(error))
            took = time.monotonic() - now
            self.read_s += took
            self.slow_s += took if took > _SLOW_S else 0.0
            self.first_s = self.first_s or time.monotonic() - started
            self.reads += 1
            time.sleep(max(0.0, started + self.reads / self._rate - time.monotonic()))


def measured_waits() -> list[float]:
    """Return a list to which each wait of this process for the limits of the hub is added, in seconds."""
    waits_s: list[float] = []
    wait = RequestPace.wait

    def timed(self: RequestPace, limit: str) -> None:
        started = time.monotonic()
        wait(self, limit)
        waits_s.append(time.monotonic() - started)

    RequestPace.wait = timed  # type: ignore[method-assign]
    return waits_s


def main() -> None:
    """Read, and print the figures."""
    url = sys.argv[1]
    lanes, first, readers = map(int, sys.argv[2:5])
    seconds, rate = map(float, sys.argv[5:7])
    waits_s = measured_waits()
    storage = open_storage(url)
    files = [info for info in storage.list() if info.name.endswith(".tar")]
    source = SourceOrder(samples=len(files) * SAMPLES, slice_length=_SLICE, shuffle_buffer=_BUFFER)
    order = RepeatedOrder((source,), (1.0,), lanes=lanes, seed=0)
    end_s = time.monotonic() + seconds
    threads = [Reader(storage, files, order, first + number, end_s=end_s, rate=rate) for number in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = {
        "reads": sum(thread.reads for thread in threads),
        "read_s": sum(thread.read_s for thread in threads),
        "slow_s": sum(thread.slow_s for thread in threads),
        "waited_s": sum(waits_s),
        "first_s": float(np.median([thread.first_s for thread in threads])),
        "faults": [fault for thread in threads for fault in thread.faults],
    }
    print(json.dumps(figures))


main()
