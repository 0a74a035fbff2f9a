"""``energon checkpoint``."""
