"""``energon preview``."""
