"""``energon rule``: explain a code of lint."""
