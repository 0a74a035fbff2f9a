"""Read the state files named on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loader.errors import EnergonError
    from loader.training.states import Redistributed, StateFile


def read_state_files(
    paths: Sequence[str], *, place: str | None = None
) -> Iterator[tuple[str, StateFile | EnergonError]]:
    """Read files, and the files directly in folders; yield each path with its contents or an error.

    Files without a state are skipped in folders, since folders of checkpoints also contain models.

    Args:
        paths: The files and folders.
        place: The place of the states within each file; None accepts any place.

    Raises:
        StorageError: A folder cannot be read, or contains no file of a kind that can hold states.
    """
    from loader.errors import EnergonError, StateError
    from loader.storage import EPath
    from loader.training.states import list_state_files, read_state_file

    where = f" at {place}" if place else ""
    for path in paths:
        is_folder = EPath(path).is_dir()
        states = 0
        for name in list_state_files(path) if is_folder else [path]:
            try:
                file = read_state_file(name, place=place)
            except EnergonError as error:
                yield name, error
                states += 1
                continue
            if file.states:
                yield name, file
            elif not is_folder:
                yield (
                    name,
                    StateError(
                        f"this file contains no state of a loader{where}",
                        at=name,
                        hint="save one with torch.save({'loader': loader.save_state_rank(), …}, path)",
                    ),
                )
            states += len(file.states)
        if is_folder and not states:
            yield path, StateError(f"no file in this folder contains a state of a loader{where}", at=path)


def read_states_to_convert(paths: Sequence[str], place: str | None) -> list[StateFile]:
    """Read files, as :func:`read_state_files` does.

    Raises:
        EnergonError: One of them cannot be read, or contains no state.
    """
    from loader.errors import EnergonError

    files = []
    for _, found in read_state_files(paths, place=place):
        if isinstance(found, EnergonError):
            raise found
        files.append(found)
    return files


def note_dropped(done: Redistributed) -> None:
    """Show which contents of the files were not copied."""
    from ..console import show_note

    if done.dropped:
        names = ", ".join(done.dropped[:8]) + " …" * (len(done.dropped) > 8)
        show_note(f"not copied, since only states are written: {names}")


def written_files(done: Redistributed) -> str:
    """Return the number of new files, with their folder and names."""
    from loader.inspect import plural

    names = done.files[0] if len(done.files) == 1 else f"{done.files[0]} … {done.files[-1]}"
    return f"wrote {plural(len(done.files), 'file')} to {done.folder} ({names})"
