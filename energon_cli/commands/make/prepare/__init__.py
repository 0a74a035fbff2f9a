"""``energon prepare`` and ``energon prepare-media``: flags, prompts and reports."""
