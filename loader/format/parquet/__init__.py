"""Read rows of Parquet files; needs the extra ``tables`` (pyarrow)."""

from __future__ import annotations
