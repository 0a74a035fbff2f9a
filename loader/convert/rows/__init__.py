"""Samples to write: where their bytes are, their keys, and their order in shards."""
