"""``energon reshard``: write the samples of a dataset to new shards."""
