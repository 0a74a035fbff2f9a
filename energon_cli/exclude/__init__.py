"""``energon exclude``."""
