"""Map files into memory without a file descriptor each, because a run may map thousands of columns."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import weakref
from contextlib import suppress
from functools import cache
from typing import Any

_FAILED = ctypes.c_void_p(-1).value


def map_memory(size_bytes: int) -> mmap.mmap:
    """Return memory outside of the heap, which the system gets back with the last view of it; in large pages, if any.

    >>> len(map_memory(5))
    5
    """
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError, AttributeError):  # a system without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def map_file(path: str | os.PathLike[str]) -> Any:
    """Map a whole file of this machine, for reading.

    Python's ``mmap`` holds a descriptor open for each map (up to Python 3.12, without a way around), and a process may
    have only so many, often 1,024. So ``mmap`` of the C library is called directly; Python's own serves only if the C
    library cannot be found.

    Args:
        path: The file; it must not be empty.

    Returns:
        A buffer, mapped as long as it or a view of it exists. Writing to it ends the process.

    Raises:
        OSError: The file cannot be opened or mapped.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"some bytes")
    ...     file.flush()
    ...     bytes(map_file(file.name))
    b'some bytes'
    """
    calls = _libc_calls()
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size_bytes = os.fstat(fd).st_size
        if calls is None:
            return _map_in_python(fd, size_bytes, path)
        map_pages, unmap_pages = calls
        # The map stays valid after the descriptor is closed.
        address = map_pages(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        if address == _FAILED:
            raise _os_error(ctypes.get_errno(), path)
    finally:
        os.close(fd)
    # The pages are unmapped with the last view; at exit the system does it, while views may still be read.
    buffer = (ctypes.c_ubyte * size_bytes).from_address(address)
    weakref.finalize(buffer, unmap_pages, address, size_bytes).atexit = False
    return buffer


def _map_in_python(fd: int, size_bytes: int, path: str | os.PathLike[str]) -> mmap.mmap:
    if not size_bytes:
        raise _os_error(errno.EINVAL, path)  # as the C library does; Python raises a ValueError
    untracked = {"trackfd": False} if sys.version_info >= (3, 13) else {}
    return mmap.mmap(fd, size_bytes, prot=mmap.PROT_READ, **untracked)


def _os_error(error_number: int, path: str | os.PathLike[str]) -> OSError:
    return OSError(error_number, os.strerror(error_number), os.fspath(path))


@cache
def _libc_calls() -> tuple[Any, Any] | None:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        map_pages, unmap_pages = libc.mmap, libc.munmap
    except (AttributeError, OSError, TypeError):  # a Python without dynamic linking, or a system without these calls
        return None
    # Declare the types: by default, ctypes passes addresses as 32-bit integers.
    address, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    map_pages.restype = address
    map_pages.argtypes = (address, size, integer, integer, integer, ctypes.c_long)
    unmap_pages.argtypes = (address, size)
    return map_pages, unmap_pages
