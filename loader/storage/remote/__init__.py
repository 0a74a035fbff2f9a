"""Datasets in object stores: requests, retries, and files that are read at offsets.

==================== ==================================================================
`object_url.py`      URLs of objects, and their redaction
`options.py`         endpoints, regions and limits
`clients/`           single requests
`failures.py`        failed requests by what to do about them
`retries.py`         repetition of requests
`pace.py`            the number of requests at one time
`fetcher.py`         many requests at a time, and second ones for those that are late
`remote_file.py`     an object as a file that is read at offsets
`object_requests.py` requests for objects, sent again when they fail
`remote_storage.py`  a prefix as a folder of files
`listed_folders.py`  folders that were listed once
`fetched_files.py`   files of any servers, which data names by URL
==================== ==================================================================
"""

from .clients import may_fork, may_use_rust, use_rust_here
from .object_url import PROTOCOLS, hide_query, host_of, redact_urls, secret_fault
from .options import DownloadOptions, parse_storage_options, remember_options, use_storage_options
from .remote_storage import RemoteStorage

__all__ = [
    "PROTOCOLS",
    "DownloadOptions",
    "RemoteStorage",
    "hide_query",
    "host_of",
    "may_fork",
    "may_use_rust",
    "parse_storage_options",
    "redact_urls",
    "remember_options",
    "secret_fault",
    "use_rust_here",
    "use_storage_options",
]
