"""The mix of datasets in a saved state."""
