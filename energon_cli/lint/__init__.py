"""``energon lint``."""
