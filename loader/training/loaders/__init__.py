"""Deliver the micro-batches of a rank to the training loop."""
