"""Datasets, loaders and saved states as a training script uses them."""
