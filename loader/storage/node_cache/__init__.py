"""Copies of remote bytes on a disk of this node, which all processes of a user share.

A cache is a folder of files and no more: no process keeps a record of it, so that one killed at any moment leaves a
usable cache. Files appear whole or not at all, and their names are hashes of what they hold. A cache opens and removes
only files with such names.

==================== ==================================================================
`private_folder.py`  folders of one user, and files in them that appear whole or not at all; the settings
`block_cache.py`     reads of objects through blocks, which are files with checksums; the limit of the cache
`node_cache.py`      the caches of this process: of blocks, and of whole files for tools that need a path
==================== ==================================================================
"""
