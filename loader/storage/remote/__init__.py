"""Datasets in object stores: requests, retries, and files that are read at offsets.

==================== ==================================================================
`object_url.py`      URLs of objects, and their redaction
`options.py`         endpoints, regions and limits
`clients/`           single requests
`failures.py`        failed requests by what to do about them, and their errors
`fetcher.py`         many requests at a time, as many as the service takes, and second ones for late ones
`object_requests.py` requests for objects, sent again when they fail; their versions; folders that were listed once
`remote_storage.py`  a prefix as a folder of files
`fetched_files.py`   files of any servers, which data names by URL
==================== ==================================================================

The names are listed in ``__init__.pyi`` and imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
