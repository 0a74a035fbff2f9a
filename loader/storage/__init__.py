"""Open, read, list, write and lock the files of datasets, by path or URL.

================  =============================================================
`protocol.py`     the interface of a store, its small types, and its errors
`local.py`        files of this machine
`epath.py`        `EPath`, the path type of megatron-energon
`durable_copy.py` copies across disks, and flushes to the disk
`file_lock.py`    locks between processes and threads
`file_stream.py`  a file read at offsets, as a Python file with a position, or in larger pieces
`memory_map.py`   files mapped into memory
`scratch_folder.py` temporary folders that outlive no run
`unpacked.py`     the contents of compressed files, within a ratio
`split_storage.py` a folder of files with a folder that is elsewhere
`missing_folder.py` the error of a folder that does not exist
`retry.py`        repetition of reads that fail for a moment
`shared_answers.py` answers about small files that one process got for all
`remote_path.py`  the methods of paths for URLs of object stores
`urls.py`         the protocols of URLs, and the store of each
================  =============================================================
"""

from .durable_copy import (
    COMMAND_FILE,
    left_command,
    partials_of,
    process_of_partial,
    size_of,
    temporary_name,
)
from .epath import EPath
from .file_stream import AscendingFile, FileStream, UnannouncedReads
from .local import LocalStorage
from .memory_map import map_file
from .missing_folder import hint_of_missing, missing_folder
from .protocol import (
    ByteRange,
    ClosesOnExit,
    FileInfo,
    PendingRead,
    ReadableFile,
    Storage,
    max_document_bytes,
    raise_storage_error,
    read_document,
)
from .remote import DownloadOptions, RemoteStorage, may_fork, may_use_rust, remember_options, use_rust_here
from .split_storage import SplitStorage
from .urls import is_url, open_parent, open_storage, resolve_path, short_path, split_url

__all__ = [
    "COMMAND_FILE",
    "AscendingFile",
    "ByteRange",
    "ClosesOnExit",
    "DownloadOptions",
    "EPath",
    "FileInfo",
    "FileStream",
    "LocalStorage",
    "PendingRead",
    "ReadableFile",
    "RemoteStorage",
    "SplitStorage",
    "Storage",
    "UnannouncedReads",
    "hint_of_missing",
    "is_url",
    "left_command",
    "map_file",
    "max_document_bytes",
    "may_fork",
    "may_use_rust",
    "missing_folder",
    "open_parent",
    "open_storage",
    "partials_of",
    "process_of_partial",
    "raise_storage_error",
    "read_document",
    "remember_options",
    "resolve_path",
    "short_path",
    "size_of",
    "split_url",
    "temporary_name",
    "use_rust_here",
]
