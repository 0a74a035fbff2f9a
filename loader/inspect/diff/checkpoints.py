"""Compare saved states with each other and with data: why would a run not resume exactly?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import StateError
from ...storage import EPath
from ...training.states import (
    RunState,
    chain_differences,
    differences,
    read_run_states,
    run_differences,
)
from .report import DifferenceList

__all__ = ["compare_checkpoint_with_data", "compare_checkpoints"]

_PROGRESS = ("batch", "ranks", "steps", "passes", "ended", "counted_on", "ranks_at", "skip_steps")


def compare_checkpoints(before: str, after: str, found: DifferenceList) -> bool:
    """Compare the states of two checkpoints.

    Returns:
        True if the run of B can continue A: they differ only in their progress.

    Raises:
        StateError: A file has no state, or states of several runs.
        StorageError: A file cannot be read.
    """
    states, states_now = read_run_states(before), read_run_states(after)
    first, first_now = states[0], states_now[0]
    blocking = [*run_differences(first, first_now), *chain_differences(first.dataset, first_now.dataset)]
    found.extend(blocking)
    found.add("", "rules", first.rules, first_now.rules)
    found.add("", "mix_changes", len(first.mix_changes), len(first_now.mix_changes))
    for name in _PROGRESS:
        found.add("", name, getattr(first, name), getattr(first_now, name))
    if first.batch == first_now.batch:
        lanes, lanes_now = _lanes(states), _lanes(states_now)
        for lane in sorted({*lanes, *lanes_now}):
            found.extend(differences(lanes.get(lane, {}), lanes_now.get(lane, {}), f"lane {lane}"))
    return not blocking


def compare_checkpoint_with_data(
    before: str, after: str, found: DifferenceList, *, split_part: str | None, trust_code: bool
) -> bool:
    """Compare the data that a checkpoint was saved with to a dataset or metadataset, as a restore would.

    Args:
        before: The checkpoint.
        after: The dataset, file of samples or metadataset.
        found: Receives the differences.
        split_part: Split part that is trained on; None: that of the checkpoint, or ``train``.
        trust_code: Allow the dataset to run its code.

    Returns:
        True if the data is the same; the settings of the run are not known.

    Raises:
        StateError: A file has no state, or states of several runs.
        ConfigError: The dataset has no such split part, or documents contain faults.
        StorageError: A path cannot be read.
    """
    from ...format.documents.load_request import LoadRequest
    from ...training.datasets.open_sources import open_sources

    saved = list(_sources(read_run_states(before)[0].dataset))
    part = split_part or next((one["split_part"] for one in saved if one.get("split_part")), "train")
    request = LoadRequest(path=str(EPath(after)), split_part=part, trust_code=trust_code)
    now = [loaded.source.identity() for loaded in open_sources(request, decoder=None, training=True)]
    if not saved:
        raise StateError("this state names no dataset that could be compared", at=before)
    if len(saved) == len(now):
        for one, two in zip(saved, now, strict=True):
            found.extend(differences(one, two))
    else:
        found.add("", "datasets", len(saved), len(now))
        names, names_now = [_name(one) for one in saved], [_name(one) for one in now]
        for name in dict.fromkeys((*names, *names_now)):
            found.add("datasets", name, *("present" if name in known else None for known in (names, names_now)))
    return not found.count


def _lanes(states: list[RunState]) -> dict[int, Mapping[str, Any]]:
    return {lane: state for one in states for lane, state in one.lane_states.items()}


def _sources(identity: Any) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of the sources in that of a chain, in order."""
    if isinstance(identity, list | tuple):
        for part in identity:
            yield from _sources(part)
    elif isinstance(identity, Mapping) and "path" in identity and "samples" in identity:
        yield dict(identity)


def _name(source: Mapping[str, Any]) -> str:
    part = source.get("split_part")
    return f"{source['path']} ({part})" if part else str(source["path"])
