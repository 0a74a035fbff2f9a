"""List and read files of saved states, and rewrite them for another number of ranks."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any

from ...errors import StateError, StorageError, plural
from ...storage import EPath, open_storage
from .checkpoint_file import Form, read_checkpoint
from .describe import group_by_run
from .found_states import FoundState, Place, find_states, place_text
from .lightning import is_lightning, rewrite_lightning
from .run_state import RunState, redistribute_states

# Names that training code gives to files with states; Accelerate numbers its own.
_SUFFIXES = (".json", ".pt", ".pth", ".ckpt")
_ACCELERATE_NAME = re.compile(r"custom_checkpoint_\d+\.pkl")
"""Names that Accelerate gives the files of registered objects. Its other ``.pkl`` files hold states of generators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """A file and the states in it.

    Attributes:
        states: In the order of the file; may be empty.
        others: The places of other values in the dicts that contain the states: ``("model", "step")``.
    """

    path: str
    form: Form
    states: tuple[FoundState, ...]
    others: tuple[str, ...]
    is_lightning: bool = False


Convert = Callable[[Sequence[RunState]], list[RunState]]
"""Returns new states of all ranks, for those of a run in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redistributed:
    """Result of :func:`rewrite_files`.

    Attributes:
        left_out: The places of values that were not written, since they belong to no state.
        set_aside: The new names of files of further ranks, which were in the folder.
    """

    ranks_before: int
    ranks: int
    batch: int
    folder: str
    files: tuple[str, ...]
    left_out: tuple[str, ...]
    set_aside: tuple[str, ...] = ()


def list_state_files(folder: str | os.PathLike[str]) -> list[str]:
    """Return the sorted paths of the files directly in a folder that are named like files of states."""
    names = [info.name for info in open_storage(folder).list() if "/" not in info.name]
    file_names = [
        os.path.join(folder, name) for name in names if name.endswith(_SUFFIXES) or _ACCELERATE_NAME.fullmatch(name)
    ]
    if not file_names:
        raise StorageError(f"no file in this folder ends with {', '.join(_SUFFIXES)}", path=os.fspath(folder))
    return file_names


def read_state_file(path: str | os.PathLike[str], *, place: str | None = None, allow_edited: bool = False) -> StateFile:
    """Read a file, and find the states in it.

    Args:
        place: The place of a state, or of a list of states, within the document: ``"data.train"``; None: any place.
    """
    # Find the states; errors name the file, too.
    form, content = read_checkpoint(path)
    text = os.fspath(path)
    try:
        states = find_states(content, allow_edited=allow_edited)
    except StateError as error:
        error.at = f"{text}: {error.at}" if error.at else text
        raise
    # Keep the states at the place, which may be a list of them.
    if place is not None:
        states = [
            placed for placed in states if place_text(placed.place) == place or place_text(placed.place[:-1]) == place
        ]
    # Name the values next to the states, which a rewritten file would lack.
    others = dict.fromkeys(name for placed in states for name in _other_places(content, placed.place))
    return StateFile(
        path=text,
        form=form,
        states=tuple(states),
        others=tuple(others),
        is_lightning=form == "torch" and is_lightning(content),
    )


def read_run_states(path: str, *, place: str | None = None) -> list[RunState]:
    """Return the states of the one run in a file or folder, by rank.

    Args:
        place: The place of the states within each file; None: any place.
    """
    # Collect the states with their places, for messages.
    files = list_state_files(path) if EPath(path).is_dir() else [path]
    states = [
        (": ".join(filter(None, (file, place_text(placed.place)))), placed.state)
        for file in files
        for placed in read_state_file(file, place=place).states
    ]
    if not states:
        raise StateError(
            f"expected the states of a run{f' at {place}' if place else ''}, found none",
            at=path,
            hint="energon checkpoint info lists the places of the states in a file"
            if place
            else "save one with torch.save({'loader': loader.save_state_rank(), …}, path)",
        )
    # Check that all are of one run.
    runs = group_by_run(states)
    if len(runs) > 1:
        places = ", ".join(run[0][0] for run in runs[:5])
        raise StateError(
            f"expected the states of one run, found those of {len(runs)}: {places}{', …' * (len(runs) > 5)}",
            at=path,
            hint="name one file, or the place of the states in it: energon checkpoint info lists them",
        )
    return sorted((state for _, state in runs[0]), key=lambda state: state.rank or 0)


def _other_places(document: Any, place: Place) -> list[str]:
    """Return the places of the other values in the dicts on the path to a place."""
    others = []
    for depth, key in enumerate(place):
        if isinstance(document, Mapping):
            others += [place_text((*place[:depth], str(name))) for name in document if str(name) != key]
            document = next(value for name, value in document.items() if str(name) == key)
        else:
            document = document[key]
    return others


def redistribute_files(
    files: Sequence[StateFile], ranks: int, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> Redistributed:
    """Write the states of a run for another number of ranks; see :func:`rewrite_files`.

    Args:
        overwrite: Replace the old files, too, if the folder has them. Files of an earlier conversion are always
            replaced.
    """
    protected = () if overwrite else tuple(os.path.realpath(file.path) for file in files)
    return rewrite_files(files, lambda states: redistribute_states(states, ranks), folder, protected=protected)


def rewrite_files(
    files: Sequence[StateFile],
    convert: Convert,
    folder: str | os.PathLike[str],
    *,
    protected: Collection[str] | None = None,
) -> Redistributed:
    """Write converted states of a run.

    The new files have the form of the old ones, so that the same code restores them. Files with one state each become
    files with one state each, named alike with the number of the rank (``_rank000`` is appended if names have no
    number). A list of all states in one file becomes such a list. States keep their keys; other values are dropped. If
    one file cannot be written, the other new ones are removed. Files of further ranks in the folder are renamed, so
    that the folder has the states of one run. A checkpoint of Lightning has the states of all ranks,
    and becomes one file, in which all other values stay.

    Args:
        protected: Paths of the files that must not be replaced; None protects all.
    """
    if any(file.is_lightning for file in files):
        return _rewrite_lightning(files, convert, folder, protected)
    # Convert the states of all ranks together.
    states = _distinct([placed.state for file in files for placed in file.states])
    place, in_list = _common_place(files)
    parts = convert(states)
    ranks = len(parts)
    plain = [part.to_plain() for part in parts]
    # Serialise all new files before the first one is written.
    form = files[0].form
    name_of = _name_of_rank(files)
    names = [os.path.basename(files[0].path)] if in_list else [*map(name_of, range(ranks))]
    data = [_serialise(document, place, form) for document in ([plain] if in_list else plain)]
    # Check what would be replaced, then write, and set the files of further ranks aside.
    _check_existing_files(folder, names, protected)
    _write_all(names, data, folder)
    further = [] if in_list else _files_of_further_ranks(folder, name_of, range(ranks, states[0].ranks))
    set_aside = tuple(_set_aside(folder, name) for name in further)
    # Report what the new files lack.
    dropped = dict.fromkeys(name for file in files for name in file.others)
    return Redistributed(
        ranks_before=states[0].ranks,
        ranks=ranks,
        batch=min(part.batch for part in parts),
        folder=os.fspath(folder),
        files=tuple(names),
        left_out=tuple(dropped),
        set_aside=set_aside,
    )


def _rewrite_lightning(
    files: Sequence[StateFile],
    convert: Convert,
    folder: str | os.PathLike[str],
    protected: Collection[str] | None,
) -> Redistributed:
    if len(files) > 1:
        raise StateError(
            f"expected one checkpoint of Lightning, with the states of all ranks, found {plural(len(files), 'file')}",
            hint="convert one checkpoint at a time",
        )
    # Write one checkpoint with the states of all ranks and all other values.
    file = files[0]
    name = os.path.basename(file.path)
    _check_existing_files(folder, [name], protected)
    parts = rewrite_lightning(file.path, file.states, convert, folder)
    return Redistributed(
        ranks_before=file.states[0].state.ranks,
        ranks=len(parts),
        batch=min(part.batch for part in parts),
        folder=os.fspath(folder),
        files=(name,),
        left_out=(),
    )


def _distinct(states: Sequence[RunState]) -> list[RunState]:
    """Drop repeated states: some frameworks save the states of all ranks on each rank."""
    kept: list[RunState] = []
    of_rank: dict[int | None, RunState] = {}
    for state in states:
        if of_rank.get(state.rank) != state:
            of_rank[state.rank] = state
            kept.append(state)
    return kept


def _common_place(files: Sequence[StateFile]) -> tuple[Place, bool]:
    """Return the place of the states in all files, and True if it holds a list of states."""
    placed = [each for file in files for each in file.states]
    lists = {each.place[:-1] for each in placed if each.place and isinstance(each.place[-1], int)}
    single_places = {each.place for each in placed if not each.place or isinstance(each.place[-1], str)}
    single = len(files) > 1 and all(len(file.states) == 1 for file in files)
    if single and len({each.place for each in placed}) == 1:
        return placed[0].place, False
    if len(lists) == 1 and not single_places:
        return lists.pop(), True
    if len(single_places) == 1 and not lists and all(len(file.states) == 1 for file in files):
        return single_places.pop(), False
    places = sorted({place_text(each.place) or "the top" for each in placed})
    raise StateError(
        f"expected the states of one loader, found states at several places: {', '.join(places[:8])}",
        hint="choose one with --place",
    )


def _name_of_rank(files: Sequence[StateFile]) -> Callable[[int], str]:
    """Return the function from a rank to the name of its file, formed like the names of existing files."""
    name = os.path.basename(files[0].path)
    for match in reversed(list(re.finditer(r"\d+", name))):
        before, after = name[: match.start()], name[match.end() :]
        if all(_number(file, before, after) == file.states[0].state.rank for file in files):
            width = len(match[0]) if match[0].startswith("0") else 0
            return lambda rank: f"{before}{rank:0{width}}{after}"
    stem, suffix = os.path.splitext(name)
    return lambda rank: f"{stem}_rank{rank:03}{suffix}"


def _number(file: StateFile, before: str, after: str) -> int | None:
    match = re.fullmatch(re.escape(before) + r"(\d+)" + re.escape(after), os.path.basename(file.path))
    return int(match[1]) if match else None


def _serialise(states: Any, place: Place, form: Form) -> bytes:
    document = states
    for key in reversed(place):
        document = {key: document} if isinstance(key, str) else [document]
    if form == "json":
        return json.dumps(document).encode()
    import torch

    file = io.BytesIO()
    torch.save(document, file)
    return file.getvalue()


def _check_existing_files(
    folder: str | os.PathLike[str], names: Sequence[str], protected: Collection[str] | None
) -> None:
    storage = open_storage(folder)
    existing = [
        name
        for name in names
        if (protected is None or os.path.realpath(storage.path(name)) in protected) and storage.exists(name)
    ]
    if existing:
        raise StorageError(
            f"{len(existing)} of the files to write exist already: {_listed(existing)}",
            path=storage.path(""),
            hint="write to another folder, or pass --force-overwrite",
        )


def _files_of_further_ranks(folder: str | os.PathLike[str], name_of: Callable[[int], str], old: range) -> list[str]:
    """Return the files of further ranks in the folder: of the converted run, or of an earlier conversion."""
    storage = open_storage(folder)
    more = takewhile(storage.exists, map(name_of, count(max(old.start, old.stop))))
    return [*filter(storage.exists, map(name_of, old)), *more]


def _set_aside(folder: str | os.PathLike[str], name: str) -> str:
    """Rename a file so that no command takes it for a state; return its new name."""
    storage = open_storage(folder)
    new = f"{name}.stale"
    for attempt in count(1):
        if not storage.exists(new):
            break
        new = f"{name}.stale{attempt}"
    storage.write(new, storage.read(name))  # objects cannot be renamed
    storage.remove(name)
    return new


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + " …" * (len(names) > 3)


def _write_all(names: Sequence[str], data: Sequence[bytes], folder: str | os.PathLike[str]) -> None:
    storage = open_storage(folder)
    new = []
    try:
        for name, content in zip(names, data, strict=True):
            is_new = not storage.exists(name)
            storage.write(name, content)
            if is_new:
                new.append(name)
    except BaseException:
        for name in new:
            storage.remove(name)
        raise
