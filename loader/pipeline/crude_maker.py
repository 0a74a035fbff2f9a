"""From the bytes of a crude sample's parts to the sample, in one step: many are so small that each step counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..errors import SampleError
from ..samples.sample_builder import SampleBuilder, at_sample
from ..samples.source_info import SourceInfo
from .leaf import RawSample

__all__ = ["crude_maker"]

_source = partial(tuple.__new__, SourceInfo)  # its own constructor takes twice as long


def crude_maker(
    builder: SampleBuilder, path: str, subflavors: Mapping[str, Any]
) -> Callable[[RawSample, tuple[Any, ...]], Any]:
    """Give what makes crude samples of raw ones and their restore keys, as ``builder.build`` does.

    Args:
        builder: Of a crude dataset.
        path: The dataset's, for its samples' sources.
        subflavors: Labels of all samples; they win over those of ``dataset.yaml``.

    Returns:
        A function that raises SampleError where a part does not decode.
    """
    sample_class, decode = builder.sample_class, builder.decode_part
    labels = {**builder.subflavors, **subflavors}

    def make(raw: RawSample, restore_key: tuple[Any, ...]) -> Any:
        _, index, shard, key, parts = raw
        if len(parts) == 1:
            (name,) = parts
            files: tuple[str, ...] = (f"{key}.{name}",)
        else:
            files = tuple([f"{key}.{name}" for name in parts])
        sources = (_source((path, index, shard, files)),)
        sample = sample_class()
        if decode is None:
            sample.update(parts)
        else:
            try:
                for name, data in parts.items():
                    sample[name] = decode(name, data)
            except SampleError as error:
                raise at_sample(error, f"{shard}/{key}", sources) from error.__cause__
        sample["__key__"] = f"{shard}/{key}"
        sample["__restore_key__"] = restore_key
        sample["__subflavors__"] = labels.copy()
        sample["__sources__"] = sources
        sample["__shard__"] = shard
        return sample

    return make
