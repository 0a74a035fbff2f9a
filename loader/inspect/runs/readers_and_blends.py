"""Find the readers and the blends in a chain of stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import ConfigError
from ...pipeline.contract.lane import child_seed
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.reading.read import ReadDataset
from ...pipeline.stages.blend import BlendDataset


def blends_in(stage: BlendDataset[Any]) -> Iterator[BlendDataset[Any]]:
    """Yield a blend and those below it."""
    yield stage
    for upstream in stage.inputs:
        inner = first_blend(upstream)
        if inner is not None:
            yield from blends_in(inner)


def first_blend(stage: SavableDataset[Any]) -> BlendDataset[Any] | None:
    """Return the outermost blend of a chain; None if there is none, or another stage has several inputs."""
    while not isinstance(stage, BlendDataset):
        if len(stage.inputs) != 1:
            return None
        stage = stage.inputs[0]
    return stage


def readers_in(
    stage: SavableDataset[Any], seed: int, path: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], tuple[ReadDataset, int]]]:
    """Yield the readers below a stage with their seeds, by the origins of the inputs of blends that lead to them.

    Raises:
        ConfigError: Another stage than a blend has several inputs.
    """
    while not isinstance(stage, ReadDataset):
        if isinstance(stage, BlendDataset):
            for origin, upstream in zip(stage.origins, stage.inputs, strict=True):
                yield from readers_in(upstream, child_seed(seed, origin), (*path, origin))
            return
        if len(stage.inputs) != 1:
            raise ConfigError("expected a chain of stages with one reader", hint="explain a run without such stages")
        stage = stage.inputs[0]
    yield path, (stage, seed)
