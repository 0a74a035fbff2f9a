"""``energon browse``."""
