"""Build, publish and read the columns of ``.nv-meta/index/<uuid>``.

====================  =====================================================================
``shard_index.py``    the index of one shard, from a scan
``writer.py``         the columns of all shards, shard by shard
``keys.py``           hashes of keys, and the table that finds them
``layout.py``         ``layout.json``: shards, part names, counts
``npy_column.py``     files of columns
``publish.py``        scans of an interrupted prepare, and the commit of a finished one
``current.py``        the index in use, also while the next one is built
``dataset_index.py``  the memory-mapped index of a dataset: sample → key and byte ranges
``locations.py``      the byte ranges of many samples at once
``sample_bytes.py``   the bytes of one sample
====================  =====================================================================
"""
