"""Passes that have the same number of micro-batches on all ranks, without messages between them."""
