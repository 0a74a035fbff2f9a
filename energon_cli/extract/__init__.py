"""``energon get`` and ``energon extract``: copy parts and samples out of a dataset."""
