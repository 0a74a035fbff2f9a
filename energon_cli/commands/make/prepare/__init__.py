"""``energon prepare``: flags, choices, the scan, and reports."""
