"""The index of a dataset as one file (``docs/reference/index-file.md``)."""
