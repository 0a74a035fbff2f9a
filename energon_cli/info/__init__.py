"""``energon info``."""
