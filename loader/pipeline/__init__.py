"""The stages between a reader and a micro-batch: one file each, with one contract (``stage.py``)."""
