"""Datasets on disk: samples by number, each with named parts. Read, choose and exclude them, without torch.

==================  =================================================================================
``dataset.py``      a dataset: its samples by number, the bytes of their parts, and its documents
``split_parts.py``  the samples of split parts and filters, and the excluded ones
``selection.py``    the samples that a run chooses: a split part, a filter and a subset
``turns.py``        the chosen samples that take a turn in a run
``tar.py``          a folder of tar shards
``records.py``      a folder of JSONL or Parquet files; a single JSONL, token or Parquet file
``join.py``         datasets joined row by row
``kind.py``         the kind of the data at a path
``unprepared/``     tar files without an index: scans, and their samples
``opening.py``      the dataset of a reference
``open_files.py``   the shards that stay open
``job_journal.py``  where the results of shares are stored
``query/``          samples chosen by split part, keys, filters and conditions
``exclusions/``     samples excluded by the split file or a filter, and the journal to undo it
==================  =================================================================================

The names are listed in ``__init__.pyi`` and imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
