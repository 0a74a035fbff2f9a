"""``energon split``."""
