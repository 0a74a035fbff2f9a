"""``energon prepare`` and ``energon prepare-media``."""
