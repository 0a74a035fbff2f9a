"""Describe a viewed sample as a JSON document with stable keys."""

from __future__ import annotations

from math import isfinite
from typing import Any

from .fields import FieldView
from .sample_view import SampleView


def sample_document(sample: SampleView) -> dict[str, Any]:
    """Return what ``energon preview --json`` prints about a sample; unknown values are None.

    >>> sample_document(SampleView(title="", fields=(), bare_key="0001", shard="s.tar", index=1))["key"]
    '0001'
    """
    return {
        "key": sample.bare_key,
        "shard": sample.shard,
        "index": sample.index,
        "origin": sample.origin,
        "excluded": sample.excluded,
        "fields": [_field_document(field) for field in sample.fields],
        "note": sample.note,
        "fault": sample.fault,
    }


def _field_document(field: FieldView) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": field.type,
        "shape": None if field.shape is None else list(field.shape),
        "dtype": field.dtype,
        # JSON has no NaN and no infinity.
        "range": None if field.range is None else [end if isfinite(end) else None for end in field.range],
        "size_bytes": field.size_bytes,
        "media": None if field.media is None else dict(field.media),
        "facts": field.facts,
        "text": field.text,
        "fault": field.fault,
    }
