"""Measure what a worker does while it makes micro-batches, at a cost below 1 % of its time."""
