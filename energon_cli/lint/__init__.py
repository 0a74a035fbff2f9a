"""``energon lint``: check a dataset and report findings."""
