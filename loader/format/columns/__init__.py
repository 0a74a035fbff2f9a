"""Columns of a dataset: one value for each sample, in ``.nv-meta/columns``."""

from .column import ComparedValues

__all__ = ["ComparedValues"]
