"""``energon doctor``: examine this machine and installation."""
