"""Make a dataset of other files: ``import``."""
