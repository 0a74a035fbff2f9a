"""Filters: the samples of a dataset that training reads, as a list of their numbers."""
