"""``energon mount``."""
