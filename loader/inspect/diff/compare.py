"""Compare what two paths name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ...dataset.opening import folder_at
from ...errors import ConfigError, StateError, plural
from ...format.data_kind import data_kind
from ...format.dataset_ref import DOCUMENT_CHOICES, DatasetRef
from ...format.documents.providers import LoadRequest
from ...storage import EPath
from ...training.states import RunState, chain_differences, differences, read_run_states, run_differences
from ..facts import kind_of_path, path_facts
from .datasets import DifferenceList, DiffReport, compare_datasets

if TYPE_CHECKING:
    from ...pipeline.reading.read import ReadDataset

_PROGRESS = ("batch", "ranks", "steps", "passes", "ended", "counted_on", "ranks_at", "skip_steps")
_OF_ARGUMENTS = ("slice_lengths", "shuffle_buffer")
_OF_STEPS = ("batch_samples", "ranks")  # the arguments of a schedule of weights
_MAX_LANES = 3  # that are listed


# Checkpoints: would a run not resume exactly, and why?


def compare_checkpoints(before: str, after: str, difference_list: DifferenceList, *, place: str | None) -> bool:
    """Compare the states of two checkpoints.

    Args:
        place: Place of the states in the files; None: the only run in each of them.

    Returns:
        True if the run of B can continue A: they differ only in their progress.
    """
    states, states_now = read_run_states(before, place=place), read_run_states(after, place=place)
    first, first_now = states[0], states_now[0]
    # Differences of the data or the settings prevent a restore; differences of the progress do not.
    blocking = [*run_differences(first, first_now), *chain_differences(first.dataset, first_now.dataset)]
    difference_list.extend(blocking)
    difference_list.add("", "mix_changes", len(first.mix_changes), len(first_now.mix_changes))
    for name in _PROGRESS:
        difference_list.add("", name, getattr(first, name), getattr(first_now, name))
    if first.batch == first_now.batch and not blocking:  # else their positions differ, too
        _compare_lanes(states, states_now, difference_list)
    return not blocking


def compare_checkpoint_with_data(
    before: str,
    after: str,
    difference_list: DifferenceList,
    *,
    split_part: str | None,
    place: str | None,
    trust_code: bool,
) -> bool:
    """Compare the data that a checkpoint was saved with to a dataset or metadataset, as a restore would.

    Args:
        split_part: Split part that is trained on; None takes the checkpoint's, or ``train``.
        place: Place of the states in the file; None: the only run in it.

    Returns:
        True if the data, and the shares of a mix, are the same; the arguments of the run are not known.
    """
    from ...training.datasets.open_sources import open_sources
    from ...training.states.mixes.begun import begin_as, number_as
    from ...training.states.mixes.leaves import sources_in
    from ..runs.planned_run import readers_of

    # Take the split part and the filter of the run from its state.
    state = read_run_states(before, place=place)[0]
    saved = list(sources_in(state.dataset))
    if not saved:
        raise StateError("this state names no dataset that could be compared", at=before)
    part = split_part or next((source["split_part"] for source in saved if source.get("split_part")), "train")
    filters = {source.get("filter") for source in saved}
    filter_name = filters.pop() if len(filters) == 1 and not data_kind(after).is_mix else None  # an argument of the run
    # Compare the readers of a run that has one, with their shares.
    readers = list(readers_of(state.dataset))
    reader = None
    if len(readers) == 1 and state.kind in ("endless", None) and "weights" in readers[0][1]:
        reader = _training_reader(after, readers[0][1], part, filter_name=filter_name, trust_code=trust_code)
    if reader is not None:
        ours = [readers[0][0], _of_data(readers[0][1]), *readers[0][2:]]
        begin_as(reader, state)
        theirs = reader.identity()
        difference_list.extend(chain_differences(ours, [theirs[0], _of_data(theirs[1]), *theirs[2:]]))
        return not difference_list.count
    # Otherwise compare the datasets alone.
    request = LoadRequest(ref=DatasetRef(str(EPath(after)), trust_code=trust_code), split_part=part, filter=filter_name)
    sources = [leaf.source for leaf in open_sources(request, decoder=None, training=True)]
    number_as(sources, state)
    difference_list.extend(differences(["read", {}, *saved], ["read", {}, *[source.identity() for source in sources]]))
    difference_list.notes.append(
        "the shares of the datasets were not compared: the run ends after a pass, has weights in another unit than "
        "samples, or reads in several places"
    )
    return not difference_list.count


def _training_reader(
    path: str, settings: Mapping[str, Any], split_part: str, *, filter_name: str | None, trust_code: bool
) -> ReadDataset | None:
    """Return the reader of an endless run on data, with the settings of a saved one; None if it has several."""
    from ..runs.planned_run import PlannedRun, RunRequest

    # Build the run with the saved arguments, so that only the data can differ.
    together = settings.get("epochs_together")
    request = RunRequest(
        path=path,
        batch_size=None,
        split_part=split_part,
        shuffle_buffer_size=settings.get("shuffle_buffer"),
        shuffle_over_epochs_multiplier=1 if isinstance(together, list) else together,
        filter_name=filter_name,
        trust_code=trust_code,
    )
    reader, _ = PlannedRun(request).readers.get((), (None, 0))
    return reader


def _of_data(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a reader without those that only arguments of the run determine."""
    kept = {name: value for name, value in settings.items() if name not in _OF_ARGUMENTS}
    if isinstance(schedule := kept.get("schedule"), Mapping):
        kept["schedule"] = {name: value for name, value in schedule.items() if name not in _OF_STEPS}
    return kept


def _compare_lanes(states: list[RunState], states_now: list[RunState], difference_list: DifferenceList) -> None:
    # Runs may have thousands of lanes: list the first ones that differ, and count the others.
    lanes, lanes_now = _lanes(states), _lanes(states_now)
    other = [lane for lane in sorted({*lanes, *lanes_now}) if lanes.get(lane) != lanes_now.get(lane)]
    for lane in other[:_MAX_LANES]:
        difference_list.extend(differences(lanes.get(lane, {}), lanes_now.get(lane, {}), f"lane {lane}"))
    if len(other) > _MAX_LANES:
        difference_list.notes.append(f"at other positions: {plural(len(other) - _MAX_LANES, 'more lane')}")


def _lanes(states: list[RunState]) -> dict[int, Mapping[str, Any]]:
    return {lane: state for run_state in states for lane, state in run_state.lane_states.items()}


# The facts about a leaf of a metadataset that change a mix.
_COMPARED = (
    "share",
    "schedule",
    "repetitions",
    "samples",
    *DOCUMENT_CHOICES,
    "filter",
    "subset",
    "subflavors",
    "aux",
    "aux_meta_folders",
    "join",
    "fault",
)
_DIGITS = 6  # of shares
_OTHER_INDEX = "the indexes have different uuids: a state that was saved with A does not restore with B"
_UNCOMPARED = ("path", "prepared", "prepared_at", "mtime", "index")  # facts that are others for a copy


# Paths of any kind.


def compare_paths(
    before: str,
    after: str,
    *,
    split_part: str | None = None,
    contents: bool = False,
    place: str | None = None,
    trust_code: bool = False,
    max_differences: int = 1000,
    on_progress: Callable[[int, int], None] | None = None,
) -> DiffReport:
    """Compare two datasets, two metadatasets, two files of samples, two checkpoints, or a checkpoint and data.

    Tar shards that are not prepared are scanned first.

    Args:
        before: The path A; the checkpoint, if only one is.
        split_part: Split part that is trained on, for a checkpoint and data; None takes the checkpoint's.
        place: Place of the states within checkpoints, such as ``loader``; None: the only run in each.
        max_differences: How many differences are kept; all are counted.
    """
    kinds = (kind_of_path(before), kind_of_path(after))
    difference_list = DifferenceList(limit=max_differences)
    # Compare what the paths name, by its kind.
    resumes: bool | None = None
    if kinds == ("checkpoint", "checkpoint"):
        resumes = compare_checkpoints(before, after, difference_list, place=place)
    elif kinds[0] == "checkpoint":
        resumes = compare_checkpoint_with_data(
            before, after, difference_list, split_part=split_part, place=place, trust_code=trust_code
        )
    elif kinds == ("metadataset", "metadataset"):
        compare_metadatasets(before, after, difference_list)
    elif kinds == ("records", "records"):
        _compare_facts(before, after, difference_list)
    elif kinds == ("dataset", "dataset"):
        _compare_folders((before, after), difference_list, contents=contents, on_progress=on_progress)
    else:
        raise ConfigError(
            f"a {kinds[0]} and a {kinds[1]} cannot be compared",
            at=f"{before}, {after}",
            hint=f"swap them: energon diff {after} {before}"
            if kinds[1] == "checkpoint"
            else "compare two of one kind, or a checkpoint with a dataset or metadataset",
        )
    # Report the first differences.
    return DiffReport(
        kinds=kinds,
        before=before,
        after=after,
        differences=tuple(difference_list.kept),
        count=difference_list.count,
        resumes=resumes,
        notes=tuple(difference_list.notes),
    )


def _compare_folders(
    paths: tuple[str, str],
    difference_list: DifferenceList,
    *,
    contents: bool,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    from ...dataset.unprepared.tar_index import with_index

    # Shards that are not prepared are scanned into a temporary index.
    with ExitStack() as stack:
        refs = [DatasetRef.of(path) for path in paths]
        indexed = [with_index(ref, stack) for ref in refs]
        folders = [folder_at(ref) for ref in indexed]
        prepared = indexed == refs
        compare_datasets(
            folders[0], folders[1], difference_list, contents=contents, documents=prepared, on_progress=on_progress
        )
        if prepared and folders[0].index.uuid != folders[1].index.uuid:
            difference_list.notes.append(_OTHER_INDEX)


def _compare_facts(before: str, after: str, difference_list: DifferenceList) -> None:
    facts: list[dict[str, Any]] = [
        {name: value for name, value in path_facts(path).items() if name not in _UNCOMPARED} for path in (before, after)
    ]
    difference_list.extend(differences(facts[0], facts[1]))


def compare_metadatasets(before: str, after: str, difference_list: DifferenceList) -> None:
    """Compare what two metadatasets mean: the leaves of each split, with their shares of the mix and their settings.

    How the documents are nested does not count.
    """
    from ..metadataset import metadataset_facts  # imported late: only metadatasets need the planner

    splits, splits_now = (
        {split["name"]: split for split in metadataset_facts(path)["splits"]} for path in (before, after)
    )
    difference_list.add_names("", "splits", [*splits], [*splits_now])
    for name, split in splits.items():
        if name in splits_now:
            difference_list.add(name, "mixed_by", split["mixed_by"], splits_now[name]["mixed_by"])
            _compare_leaves(name, split, splits_now[name], difference_list)


def _compare_leaves(
    name: str, split: dict[str, Any], split_now: dict[str, Any], difference_list: DifferenceList
) -> None:
    leaves, leaves_now = _leaves_by_name(split["tree"]), _leaves_by_name(split_now["tree"])
    for leaf in dict.fromkeys((*leaves, *leaves_now)):
        settings, settings_now = leaves.get(leaf), leaves_now.get(leaf)
        if settings is None or settings_now is None:
            values = [None if each is None else _rounded(each["share"]) for each in (settings, settings_now)]
            if values == [None, None]:  # of a split that has no shares
                difference_list.add_names(name, "leaves", [leaf] if settings else [], [leaf] if settings_now else [])
            else:
                difference_list.add(f"{name}: {leaf}", "share", *values)
            continue
        for key in _COMPARED:
            if key == "schedule":
                _compare_schedules(f"{name}: {leaf}", settings[key], settings_now[key], difference_list)
            elif key == "share":
                difference_list.add(f"{name}: {leaf}", "share", _rounded(settings[key]), _rounded(settings_now[key]))
            else:
                difference_list.extend(differences({key: settings[key]}, {key: settings_now[key]}, f"{name}: {leaf}"))
    difference_list.add_order(f"{name}: leaves", [*leaves], [*leaves_now])


def _compare_schedules(where: str, schedule: Any, schedule_now: Any, difference_list: DifferenceList) -> None:
    if schedule == schedule_now:
        return
    before, after = (None if each is None else each["text"] for each in (schedule, schedule_now))
    if before == after:  # the texts of long schedules are cut
        difference_list.extend(differences(schedule, schedule_now, f"{where}: share schedule"))
    else:
        difference_list.add(where, "share schedule", before, after)


def _leaves_by_name(tree: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the leaves of a split by path and split part; repeated ones are numbered."""
    by_name: dict[str, dict[str, Any]] = {}
    counts: dict[str, int] = {}
    for leaf in _leaves(tree):
        name = f"{leaf['path'] or leaf['place']} ({leaf['split_part']})" if leaf["split_part"] else str(leaf["path"])
        counts[name] = counts.get(name, 0) + 1
        by_name[name if counts[name] == 1 else f"{name} #{counts[name]}"] = leaf
    return by_name


def _leaves(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if not node["children"]:
        yield node
    for child in node["children"]:
        yield from _leaves(child)


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, _DIGITS)
