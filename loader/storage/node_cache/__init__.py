"""Copies of remote bytes on a disk of this node, which all processes of a user share.

A cache is a folder of files and no more: no process keeps a record of it, so that one killed at any moment leaves a
usable cache. Files appear whole or not at all, their names are hashes of what they hold, and those of the cache are
the only ones that it ever opens or removes.

==================== ==================================================================
`settings.py`        the folder and the limits, as users set them
`file_systems.py`    file systems on other machines
`private_folder.py`  folders of one user
`range_locks.py`     locks between processes, by number
`new_file.py`        files that appear whole or not at all
`space.py`           the limit, and the eviction of the oldest files
`block_file.py`      a block of an object in a file, with checksums
`block_cache.py`     reads of objects through blocks
`file_copies.py`     whole files, for tools that need a path
`node_cache.py`      the caches of this process
==================== ==================================================================
"""

from .block_cache import BlockCache, RemoteObject
from .node_cache import block_cache, local_copy
from .settings import CACHE_BYTES_VARIABLE, CACHE_FOLDER_VARIABLE, CacheSettings, cache_settings

__all__ = [
    "CACHE_BYTES_VARIABLE",
    "CACHE_FOLDER_VARIABLE",
    "BlockCache",
    "CacheSettings",
    "RemoteObject",
    "block_cache",
    "cache_settings",
    "local_copy",
]
