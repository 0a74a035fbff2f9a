"""``energon merge``."""
