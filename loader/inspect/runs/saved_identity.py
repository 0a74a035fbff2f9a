"""Read the arguments of a run from the description of its chain in a saved state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...errors import ConfigError, StateError
from ...samples.encoding.task_encoder import TaskEncoder
from ...training.states import RunState
from ..diff.checkpoints import readers_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The arguments of a training run that determine its samples.

    Attributes:
        batch_size: Samples of a micro-batch; None for single samples.
        shuffle_buffer_size: As of ``get_train_dataset``.
        max_samples_per_sequence: As of ``get_train_dataset``.
        shuffle_over_epochs_multiplier: As of ``get_train_dataset``.
        packing_buffer_size: As of ``get_train_dataset``. Without a ``task_encoder``, samples are not packed, but the
            lanes are those of a run that packs.
        seed_offset: As of ``WorkerConfig``.
        lanes: Number of lanes; None for the default of a new run. A restored run keeps the number that it began with.
        task_encoder: The hooks of the run, for runs whose micro-batches are rebuilt; None: only the order counts.
    """

    path: str
    batch_size: int | None = 1
    world_size: int = 1
    num_workers: int = 0
    split_part: str = "train"
    shuffle_buffer_size: int | None = None
    max_samples_per_sequence: int | None = None
    shuffle_over_epochs_multiplier: int | None = 1
    packing_buffer_size: int | None = None
    seed_offset: int = 0
    lanes: int | None = None
    filter_name: str | None = None
    trust_code: bool = False
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None


def request_of(
    state: RunState, dataset: str | None, *, trust_code: bool, task_encoder: TaskEncoder[Any, Any, Any, Any] | None
) -> RunRequest:
    """Return the arguments that a state's description of the chain has."""
    readers = list(readers_of(state.dataset))
    if not readers:
        raise StateError(
            "expected a run with one reader, found 0",
            hint="chains of users that read in several places are traced by the debug log: worker_debug_path",
        )
    sources = [source for read in readers for source in read[2:] if isinstance(source, Mapping)]
    stages = dict(stages_of(state.dataset))
    names = {str(source.get("path")) for source in sources}
    if dataset is None and (len(sources) != 1 or len(names) != 1):
        raise ConfigError(
            f"the run mixes {len(sources)} datasets, and its state does not name the metadataset",
            hint="pass it as --dataset",
        )
    settings = {name: _common([read[1].get(name) for read in readers]) for name in readers[0][1]}
    together, slices = settings.get("epochs_together"), settings.get("slice_lengths")
    filters = {source.get("filter") for source in sources}
    request = RunRequest(
        path=dataset or names.pop(),
        batch_size=_size(stages, "batch_size"),
        packing_buffer_size=_size(stages, "buffer_size") if task_encoder is not None else None,
        world_size=state.ranks,
        split_part=str(sources[0].get("split_part") or "train"),
        shuffle_buffer_size=settings.get("shuffle_buffer"),
        max_samples_per_sequence=slices if isinstance(slices, int) else None,
        shuffle_over_epochs_multiplier=together if not isinstance(together, list) else 1,
        seed_offset=state.seed,
        lanes=state.lanes,
        trust_code=trust_code,
        task_encoder=task_encoder,
    )
    return replace(request, filter_name=filters.pop()) if dataset is None else request


def _common(values: list[Any]) -> Any:
    """Return the value that all readers have, or the list of their values."""
    return values[0] if all(value == values[0] for value in values) else values


def _size(stages: Mapping[str, Mapping[str, Any]], name: str) -> int | None:
    return next((settings[name] for settings in stages.values() if isinstance(settings.get(name), int)), None)


def stages_of(identity: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the names and settings of the stages in the description of a chain, the outermost first."""
    if isinstance(identity, list | tuple) and len(identity) > 1 and isinstance(identity[0], str):
        yield identity[0], identity[1] if isinstance(identity[1], Mapping) else {}
        for part in identity[2:]:
            yield from stages_of(part)


def order_stages(identity: Any) -> Any:
    """Return the description of the readers and blends of a chain, without the other stages."""
    if isinstance(identity, list | tuple) and identity:
        if identity[0] == "read":
            return identity
        inner = [order_stages(part) for part in identity[2:]]
        return [*identity[:2], *inner] if identity[0] == "blend" else next(iter(inner), None)
    return identity


def order_of_blends(identity: Any) -> str:
    """Return how blends count sizes: by ``"columns"`` before decoding, or by ``"metrics"`` after it."""
    names = [name for name, _ in stages_of(identity)]
    return "columns" if names.index("decode") < names.index("blend") else "metrics"
