"""``energon diff``: compare two datasets, metadatasets or checkpoints."""
