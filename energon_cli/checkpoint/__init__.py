"""``energon checkpoint``: inspect and redistribute saved states."""
