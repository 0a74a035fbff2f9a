"""Files mapped into memory without a file descriptor each: a run may have thousands of columns mapped."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from functools import cache
from typing import Any

__all__ = ["map_file"]

_FAILED = ctypes.c_void_p(-1).value


def map_file(path: str | os.PathLike[str]) -> Any:
    """Map a whole file of this machine, for reading.

    Python's ``mmap`` keeps a descriptor open for each map (up to Python 3.12, without a way around), and a process may
    have only so many, often 1,024.

    Args:
        path: The file; it must not be empty.

    Returns:
        A buffer, which stays mapped as long as something looks into it. It is not to be written to: the system would
        end the process.

    Raises:
        OSError: The file cannot be opened or mapped.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"some bytes")
    ...     file.flush()
    ...     bytes(map_file(file.name))
    b'some bytes'
    """
    map_pages, unmap_pages = _system_calls()
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size_bytes = os.fstat(fd).st_size
        address = map_pages(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        if address == _FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), os.fspath(path))
    finally:
        os.close(fd)
    buffer = (ctypes.c_ubyte * size_bytes).from_address(address)
    weakref.finalize(buffer, unmap_pages, address, size_bytes).atexit = False
    return buffer


@cache
def _system_calls() -> tuple[Any, Any]:
    """Give ``mmap`` and ``munmap`` of the C library."""
    libc = ctypes.CDLL(None, use_errno=True)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.restype = address
    libc.mmap.argtypes = (address, size, number, number, number, ctypes.c_long)
    libc.munmap.argtypes = (address, size)
    return libc.mmap, libc.munmap
