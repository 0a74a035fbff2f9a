"""``energon add-parts``."""
