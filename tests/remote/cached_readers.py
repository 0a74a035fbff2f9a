"""Processes of one node that read the same bytes at the same time; run by the tests as a script.

Arguments: what to do, the URL of the folder, the name of the file, and the number of processes.
"""

from __future__ import annotations

import hashlib
import os
import sys

from loader.storage.node_cache import block_cache
from loader.storage.remote import RemoteStorage
from loader.storage.remote.clients.choice import use_rust_here


def _read(action: str, url: str, name: str) -> str:
    use_rust_here()
    storage = RemoteStorage(url)
    if action == "copy":
        data = storage.local_path(name, is_fixed=True).read_bytes()
    else:
        info = next(info for info in storage.list() if info.name == name)
        with storage.open(name, info) as file:
            data = b"".join(file.read_at(start, 100_000) for start in range(0, info.size_bytes, 100_000))
    return hashlib.sha256(data).hexdigest()


def main() -> None:
    """Start the processes, let them begin together, and print what they read."""
    block_cache._MOST_FREE_BYTES = 0  # a disk of tests may be almost full
    action, url, name, processes = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    begin, start = os.pipe()
    has_ended, end = os.pipe()
    children = []
    for _ in range(processes):
        child = os.fork()
        if not child:
            os.close(start)
            os.read(begin, 1)  # the end of the pipe
            os.write(1, f"{_read(action, url, name)}\n".encode())  # whole lines
            os.close(end)
            os.read(has_ended, 1)  # until all have read: a temporary copy ends with its last user
            os._exit(0)
        children.append(child)
    os.close(start)
    os.close(end)
    for child in children:
        if os.waitpid(child, 0)[1]:
            raise SystemExit("a process failed")


if __name__ == "__main__":
    main()
