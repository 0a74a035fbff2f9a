"""``energon export``: copy the samples of a dataset to another format."""
