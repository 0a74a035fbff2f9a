"""Builder of stages for the ``build_…`` methods of task encoders; stages are in a layer above this one."""

from __future__ import annotations

from typing import Any, Protocol

from ...errors import EnergonError


class StageBuilder(Protocol):
    """Builds stages with the hooks of a task encoder; the arguments are those of the encoder's methods."""

    def cook_crude_sample(self, encoder: Any, dataset: Any, *, get_primary_aux: Any, aux: Any) -> Any:
        """Build the stage that cooks crude samples."""

    def encode_sample(self, encoder: Any, dataset: Any) -> Any:
        """Build the stage that encodes samples."""

    def batch(
        self, encoder: Any, dataset: Any, *, batch_size: int | None, drop_last: bool, packing_buffer_size: int | None
    ) -> Any:
        """Build the stages that pack, batch and encode batches."""


_builders: list[StageBuilder] = []


def set_stage_builder(builder: StageBuilder) -> None:
    """Set the builder of all task encoders."""
    _builders[:] = [builder]


def stage_builder() -> StageBuilder:
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
