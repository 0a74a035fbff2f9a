"""``energon stats``."""
