"""Compare saved states with each other and with data: why would a run not resume exactly?"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import StateError
from ...format.documents.providers import is_metadataset
from ...metadataset.plans.plan_node import RepeatedLeafWarning
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.read import ReadDataset
from ...storage import EPath
from ...training.states import (
    RunState,
    chain_differences,
    differences,
    read_run_states,
    run_differences,
)
from .datasets import DifferenceList

_PROGRESS = ("batch", "ranks", "steps", "passes", "ended", "counted_on", "ranks_at", "skip_steps")
_OF_ARGUMENTS = ("slice_lengths", "shuffle_buffer")
_OF_STEPS = ("batch_samples", "ranks")  # the arguments of a schedule of weights
_MAX_LANES = 3  # that are listed


def compare_checkpoints(before: str, after: str, found: DifferenceList, *, place: str | None) -> bool:
    """Compare the states of two checkpoints.

    Args:
        place: Place of the states in the files; None: the only run in each of them.

    Returns:
        True if the run of B can continue A: they differ only in their progress.
    """
    states, states_now = read_run_states(before, place=place), read_run_states(after, place=place)
    first, first_now = states[0], states_now[0]
    blocking = [*run_differences(first, first_now), *chain_differences(first.dataset, first_now.dataset)]
    found.extend(blocking)
    found.add("", "mix_changes", len(first.mix_changes), len(first_now.mix_changes))
    for name in _PROGRESS:
        found.add("", name, getattr(first, name), getattr(first_now, name))
    if first.batch == first_now.batch and not blocking:  # else their positions differ, too
        _compare_lanes(states, states_now, found)
    return not blocking


def compare_checkpoint_with_data(
    before: str, after: str, found: DifferenceList, *, split_part: str | None, place: str | None, trust_code: bool
) -> bool:
    """Compare the data that a checkpoint was saved with to a dataset or metadataset, as a restore would.

    Args:
        split_part: Split part that is trained on; None takes the checkpoint's, or ``train``.
        place: Place of the states in the file; None: the only run in it.

    Returns:
        True if the data, and the shares of a mix, are the same; the arguments of the run are not known.
    """
    from ...format.dataset_ref import DatasetRef
    from ...format.documents.providers import LoadRequest
    from ...training.datasets.open_sources import open_sources

    # Take the split part and the filter of the run from its state.
    state = read_run_states(before, place=place)[0]
    saved = list(_sources(state.dataset))
    if not saved:
        raise StateError("this state names no dataset that could be compared", at=before)
    part = split_part or next((one["split_part"] for one in saved if one.get("split_part")), "train")
    filters = {one.get("filter") for one in saved}
    filter_name = filters.pop() if len(filters) == 1 and not is_metadataset(after) else None  # an argument of the run
    # Compare the readers of a run that has one, with their shares.
    readers = list(readers_of(state.dataset))
    chain = None
    if len(readers) == 1 and state.kind in ("endless", None) and "weights" in readers[0][1]:
        chain = _training_chain(after, readers[0][1], part, filter_name=filter_name, trust_code=trust_code)
    if chain is not None:
        ours = [readers[0][0], _of_data(readers[0][1]), *readers[0][2:]]
        theirs = chain.identity()
        found.extend(chain_differences(ours, [theirs[0], _of_data(theirs[1]), *theirs[2:]]))
        return not found.count
    # Otherwise compare the datasets alone.
    request = LoadRequest(ref=DatasetRef(str(EPath(after)), trust_code=trust_code), split_part=part, filter=filter_name)
    now = [leaf.source.identity() for leaf in open_sources(request, decoder=None, training=True)]
    found.extend(differences(["read", {}, *saved], ["read", {}, *now]))
    found.notes.append(
        "the shares of the datasets were not compared: the run ends after a pass, has weights in another unit than "
        "samples, or reads in several places"
    )
    return not found.count


def _training_chain(
    path: str, settings: Mapping[str, Any], split_part: str, *, filter_name: str | None, trust_code: bool
) -> ReadDataset | None:
    """Return the reader of an endless run on data, with the settings of a saved one; None if it has several."""
    from ...training.datasets.get_datasets import get_train_dataset
    from ...training.datasets.planned_encoder import PlannedEncoder

    # Build the chain of a run with these settings, on any number of ranks.
    together = settings.get("epochs_together")
    options: dict[str, Any] = {} if filter_name is None else {"filter_name": filter_name}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedLeafWarning)
        chain: SavableDataset[Any] = get_train_dataset(
            path,
            split_part=split_part,
            worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
            batch_size=None,
            shuffle_buffer_size=settings.get("shuffle_buffer"),
            max_samples_per_sequence=None,
            shuffle_over_epochs_multiplier=1 if isinstance(together, list) else together,
            trust_code=trust_code,
            task_encoder=PlannedEncoder(),
            **options,
        )
    # Go down to the reader.
    while not isinstance(chain, ReadDataset):
        if len(chain.inputs) != 1:
            return None
        chain = chain.inputs[0]
    return chain


def _of_data(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a reader without those that only arguments of the run determine."""
    kept = {name: value for name, value in settings.items() if name not in _OF_ARGUMENTS}
    if isinstance(schedule := kept.get("schedule"), Mapping):
        kept["schedule"] = {name: value for name, value in schedule.items() if name not in _OF_STEPS}
    return kept


def _compare_lanes(states: list[RunState], states_now: list[RunState], found: DifferenceList) -> None:
    """Compare the positions of the lanes; list the first lanes that differ, and count the others."""
    lanes, lanes_now = _lanes(states), _lanes(states_now)
    other = [lane for lane in sorted({*lanes, *lanes_now}) if lanes.get(lane) != lanes_now.get(lane)]
    for lane in other[:_MAX_LANES]:
        found.extend(differences(lanes.get(lane, {}), lanes_now.get(lane, {}), f"lane {lane}"))
    if len(other) > _MAX_LANES:
        found.notes.append(f"{len(other) - _MAX_LANES:,} more lanes are at other positions")


def _lanes(states: list[RunState]) -> dict[int, Mapping[str, Any]]:
    return {lane: state for one in states for lane, state in one.lane_states.items()}


def readers_of(identity: Any) -> Iterator[list[Any]]:
    """Yield the descriptions of the readers in the description of a chain."""
    if isinstance(identity, list | tuple) and identity:
        if identity[0] == "read" and len(identity) > 1 and isinstance(identity[1], Mapping):
            yield list(identity)
        else:
            for part in identity:
                yield from readers_of(part)


def _sources(identity: Any) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of the sources in the description of a chain, in order."""
    if isinstance(identity, list | tuple):
        for part in identity:
            yield from _sources(part)
    elif isinstance(identity, Mapping) and "path" in identity and "samples" in identity:
        yield dict(identity)
