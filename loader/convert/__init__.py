"""Convert files, tables, archives and datasets to new prepared datasets.

===============  =====================================================================
`writing/`       tar shards with their index, and datasets that are prepared at the end
`rows/`          samples to write: where their bytes are, their keys, their order
`tables/`        columns of tables as parts of samples
`sources/`       what samples are made of: folders, tables, archives, datasets
`importing/`     sources → a prepared dataset, in parallel and resumable
`resharding`     a dataset → new shards, with its columns and filters
`merging`        datasets → one, without a scan
`splitting`      another split of a dataset, by whole shards or `split_groups`
`added_parts`    parts for the samples of a dataset, in a dataset that a metadataset joins
`exporting`      a dataset → files, tables and other formats
===============  =====================================================================

The names are listed in ``__init__.pyi`` and imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
