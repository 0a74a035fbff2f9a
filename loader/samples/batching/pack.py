"""Pack samples to one sequence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import accumulate
from typing import Any

from ...errors import SampleError
from ...lazy_torch import torch
from ..hooks import library_hook
from .collate import join_all, join_sources, key_of, no_samples, pad_concat

_JOINED = {"__sources__": join_sources}


@library_hook
def concat_pack(samples: Sequence[Any], *, padded: Collection[str] = ()) -> dict[str, Any]:
    """Concatenate the tensors of one dimension of samples, and list their other fields.

    Args:
        samples: S samples: dicts, or dataclasses, with the same fields.
        padded: Fields whose tensors, of shapes (n_i, d_i, …), are joined by :func:`.concat_pad`: tiles of pictures.

    Returns:
        A dict with the fields of the samples:

        - tensors of shape (n_i,): concatenated, shape (Σ n_i,)
        - ``padded`` fields: concatenated, shape (Σ n_i, max d, …), with ``<field>_cu_seqlens``
        - all others, such as pictures, texts and keys: a list of S values
        - ``cu_seqlens``: int32, shape (S + 1,), the offsets of the sequences, from 0, for variable-length attention
        - ``max_seqlen``: the length of the longest sequence
        - ``position_ids``: int64, shape (Σ n_i,), from 0 in each sequence

        Fields whose tensors have other lengths have offsets of their own: ``<field>_cu_seqlens``.

    Raises:
        SampleError: There are no samples, or their fields or the ranks of a padded field differ.

    >>> pack = concat_pack([{"tokens": torch.tensor([1, 2, 3])}, {"tokens": torch.tensor([4, 5])}])
    >>> pack["tokens"].tolist(), pack["cu_seqlens"].tolist(), pack["position_ids"].tolist()
    ([1, 2, 3, 4, 5], [0, 3, 5], [0, 1, 2, 0, 1])
    """
    if not samples:
        raise no_samples()
    rows = [_fields_of(sample) for sample in samples]
    for row, sample in zip(rows, samples, strict=True):
        if row.keys() != rows[0].keys():
            raise SampleError(
                f"samples of a pack differ: {sorted(row)} instead of {sorted(rows[0])}",
                key=key_of(sample),
                hint="give them the same fields in encode_sample, or define pack_selected_samples",
            )
    pack: dict[str, Any] = {}
    lengths: list[int] | None = None
    # Concatenate what is a sequence in all samples; the first such field has the offsets.
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name in padded:
            pack[name], pack[f"{name}_cu_seqlens"] = join_all(pad_concat, values), _offsets([*map(len, values)])
            continue
        if not all(isinstance(value, torch.Tensor) and value.ndim == 1 for value in values):
            pack[name] = _JOINED.get(name, list)(values)
            continue
        pack[name] = torch.cat(values)
        own_lengths = list(map(len, values))
        if lengths is None:
            lengths = own_lengths
        elif own_lengths != lengths:
            pack[f"{name}_cu_seqlens"] = _offsets(own_lengths)
    if lengths is not None:
        pack["cu_seqlens"] = _offsets(lengths)
        pack["max_seqlen"] = max(lengths)
        pack["position_ids"] = torch.cat([torch.arange(length) for length in lengths])
    if "__restore_key__" in pack:
        pack["__restore_key__"] = ()  # set by the stage, with the ids of all samples
    return pack


def sequence_length(sample: Any) -> int:
    """Return the length that a sample has in the sequence of :func:`concat_pack`: of its first tensor of one dimension.

    >>> sequence_length({"__key__": "a", "image": torch.ones(3, 4, 4), "tokens": torch.tensor([1, 2])})
    2
    """
    values = _fields_of(sample).values()
    return next((len(value) for value in values if isinstance(value, torch.Tensor) and value.ndim == 1), 0)


def _offsets(lengths: list[int]) -> Any:
    return torch.tensor([*accumulate(lengths, initial=0)], dtype=torch.int32)


def _fields_of(sample: Any) -> Mapping[str, Any]:
    if isinstance(sample, Mapping):
        return sample
    if is_dataclass(sample):
        return {each.name: getattr(sample, each.name) for each in fields(sample)}
    raise SampleError(
        f"samples of a pack are dicts or dataclasses, found {type(sample).__name__}",
        hint="return one of them from encode_sample, or define pack_selected_samples",
    )
