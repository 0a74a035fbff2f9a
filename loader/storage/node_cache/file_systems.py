"""File systems whose files are on other machines, where a cache is of no use and locks may not hold."""

from __future__ import annotations

import ctypes
import sys

# f_type of statfs(2), from linux/magic.h and the sources of the file systems that are not in it.
_NAMES = {
    0x6969: "NFS",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB",
    0x517B: "SMB",
    0x0BD00BD0: "Lustre",
    0x65735546: "FUSE",
    0x00C36400: "Ceph",
    0x47504653: "GPFS",
    0x01021997: "9P",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x73757245: "Coda",
    0x19830326: "BeeGFS",
    0x01161970: "GFS2",
    0x7461636F: "OCFS2",
    0xAAD7AAEA: "PanFS",
    0x20030528: "OrangeFS",
    0x786F4256: "a folder of the virtual machine's host",
}
_STATFS_BYTES = 512  # more than any architecture fills


def network_file_system(fd: int) -> str | None:
    """Return the name of the network file system of an open folder; None if it is local or not known."""
    if sys.platform != "linux":
        return None
    try:
        fstatfs = ctypes.CDLL(None).fstatfs
    except (AttributeError, OSError, TypeError):  # a Python without dynamic linking
        return None
    status = ctypes.create_string_buffer(_STATFS_BYTES)
    if fstatfs(fd, status) != 0:
        return None
    return _NAMES.get(ctypes.c_ulong.from_buffer(status).value & 0xFFFFFFFF)
