"""Collate samples to batches."""
