"""Builder of stages for the ``build_…`` methods of task encoders; stages are in a layer above this one."""

from __future__ import annotations

from typing import Any

from ...errors import EnergonError

_builders: list[Any] = []  # has a method for each `build_…` method of task encoders


def set_stage_builder(builder: Any) -> None:
    """Set the builder of all task encoders: the ``EncoderStages`` of the layer above."""
    _builders[:] = [builder]


def stage_builder() -> Any:
    """Return the builder.

    Raises:
        EnergonError: No dataset has been opened in this process.
    """
    if not _builders:
        raise EnergonError(
            "stages can be built once a dataset is open",
            hint="call build_batch, build_encode_sample and build_cook_crude_sample in build_train_datasets",
        )
    return _builders[0]
