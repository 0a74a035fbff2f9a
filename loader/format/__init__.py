"""Bytes to ``.nv-meta`` and back; nothing here imports torch.

===========================================================  ========================================================
``tar_header.py``, ``tar_scan.py``, ``member_name.py``       tar file → members, keys and part names
``shard_index.py``                                           members of one shard → columns
``index_writer.py``, ``key_table.py``, ``index_layout.py``   columns of all shards → ``index/<uuid>/``
``dataset_index.py``, ``index_in_force.py``                  ``index/<uuid>/`` → where a sample's bytes lie
``staleness.py``                                             is the shard still the one that was indexed?
``missing_index.py``                                         the same for a dataset that another tool prepared
``tar_idx.py``, ``sqlite_index.py``, ``compat_files.py``     the index as other tools read it
``prepare_plan.py``, ``prepare.py``                          the whole way from a folder of shards to a dataset
``shard_search.py``, ``prepare_split.py``, ``shard_scans.py``  its steps: find, split, scan
``journal.py``, ``commit.py``                                interrupted runs, all or nothing
``previous_index.py``, ``kept_rows.py``                      shards that have not changed
``split_config.py``, ``split_plan.py``                       ``split.yaml``
``dataset_config.py``, ``field_map.py``, ``sample_types.py``  ``dataset.yaml``
``jsonl.py``                                                 ``.jsonl`` files
``lint.py``                                                  is all of this true?
===========================================================  ========================================================
"""
