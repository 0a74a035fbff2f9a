"""Open, read, list, write and lock the files of datasets, by path or URL.

================  =============================================================
`protocol.py`     the interface of a store, its small types, and its errors
`local.py`        files of this machine
`hub_folder.py`   a folder whose files are published in a repository of the Hugging Face Hub
`epath.py`        `EPath`, the path type of megatron-energon
`on_disk.py`      renames, flushes and checks of files of this machine
`temporary_files.py` temporary files and folders, and unfinished ones that a killed run has left
`file_lock.py`    locks between processes and threads, of files and by number
`memory_map.py`   files mapped into memory
`unpacked.py`     the contents of compressed files, within a ratio
`shared_answers.py` answers about small files that one process got for all
`remote_path.py`  the methods of paths for URLs of object stores
`urls.py`         the protocols of URLs, the store of each, and errors of missing folders
================  =============================================================

The names are listed in ``__init__.pyi`` and imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
