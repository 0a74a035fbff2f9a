"""Datasets on disk: samples by number, each with named parts. Read, choose and exclude them, without torch.

==================  =================================================================================
``dataset.py``      a dataset: its documents, its samples by number, and the bytes of their parts
``single_file.py``  a JSONL, token or Parquet file as a dataset
``unprepared/``     tar files without an index: scans, and their samples
``query/``          samples chosen by split part, keys, filters and conditions
``exclusions/``     samples excluded by the split file or a filter, and the journal to undo it
==================  =================================================================================
"""
