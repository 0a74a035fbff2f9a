"""Datasets in object stores: requests, retries, and files that are read at offsets.

==================== ==================================================================
`object_url.py`      URLs of objects, and their redaction
`options.py`         endpoints, regions and limits
`client.py`          the interface of clients: single requests
`clients.py`         the client of a URL in this process
`obstore_client.py`  requests by obstore: S3, GCS, Azure
`stores.py`          the stores of obstore, and their settings
`msc_client.py`      profiles of multi-storage-client
`http_client.py`     requests to web servers
`helper_client.py`   requests sent through a helper process
`helper.py`          the helper process
`failures.py`        failed requests by what to do about them
`retries.py`         repetition of requests
`pace.py`            the number of requests at one time
`fetcher.py`         many requests at a time, and second ones for those that are late
`remote_file.py`     an object as a file that is read at offsets
`remote_storage.py`  a prefix as a folder of files
==================== ==================================================================
"""

from .object_url import PROTOCOLS, redact_urls
from .options import parse_storage_options, remember_options
from .remote_storage import RemoteStorage

__all__ = ["PROTOCOLS", "RemoteStorage", "parse_storage_options", "redact_urls", "remember_options"]
