"""Paths and URLs to bytes: the only layer that opens files.

| file              | what is in it                                               |
| ----------------- | ----------------------------------------------------------- |
| `protocol.py`     | what a store of files can do, and the small types it speaks |
| `local.py`        | files of this machine                                       |
| `durable_copy.py` | copying to another disk, and waiting until a disk has files |
| `epath.py`        | a path as code written for megatron-energon handles it      |
| `file_lock.py`    | locks between processes and threads                         |
| `memory_map.py`   | files mapped into memory                                    |
| `os_error.py`     | errors of the system, with what to do about them            |
| `resolve.py`      | which store serves a path or URL                            |
"""

from .epath import EPath
from .local import LocalStorage
from .memory_map import map_file
from .protocol import ByteRange, FileInfo, ReadableFile, Storage
from .resolve import open_storage

__all__ = ["ByteRange", "EPath", "FileInfo", "LocalStorage", "ReadableFile", "Storage", "map_file", "open_storage"]
