"""Read and write the files of datasets and their ``.nv-meta`` folder, without torch.

=====================  ================================================================================
``tar/``               tar headers, scans, member names, ``.tar.idx`` files
``jsonl/``             JSONL files and their indexes
``records/``           files of numbered samples (JSONL, tokens, Parquet) under one interface, and folders of them
``documents/``         ``split.yaml``, ``dataset.yaml``, ``.info.json``: parsing and writing
``index/``             the columns of ``index/<uuid>/``: sample → key and byte ranges
``compat/``            the files that megatron-energon reads and writes
``media/``             metadata of images, audio and video
``prepare/``           a folder of shards → a dataset
``data_kind.py``       the kinds of data, by names alone
``dataset_ref.py``     which dataset, and by which of its documents
``shard_content.py``   the samples of one file, without an index
``nv_meta.py``         the names of the files in ``.nv-meta``
=====================  ================================================================================
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
