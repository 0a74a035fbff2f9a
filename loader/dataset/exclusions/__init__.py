"""Exclude samples from a dataset by its split file or by a named filter, and undo it."""
