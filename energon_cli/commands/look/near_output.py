"""The near-duplicates and neighbours of samples, found by a column of vectors, as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loader.errors import StorageError, escape_controls, plural

from ...console import facts_of, output_console, print_json
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.dataset.query import SampleQuery
    from loader.format import DatasetRef
    from loader.metadataset import NamedDataset

_MAX_SHOWN = 10  # groups, and samples of each
_MAX_SAMPLES = 3


def show_near_duplicates(
    datasets: Sequence[NamedDataset],
    column: str,
    threshold: float | None,
    query: SampleQuery,
    *,
    as_json: bool,
) -> bool:
    """Print the groups of near-duplicates of all datasets together; return True if there are some."""
    from loader.metadataset import NumberedDatasets, choose_samples, open_datasets
    from loader.similarity import near_duplicates_of

    # Compare the samples of all datasets.
    at = ", ".join(dataset.path for dataset in datasets)
    with open_datasets(datasets) as opened:
        numbered = NumberedDatasets({each.name: each.folder for each in opened})
        chosen = numbered.numbers(choice.numbers for choice in choose_samples(opened, query, at=at))
        with ProgressBar("Comparing samples", unit="samples") as bar:
            result = near_duplicates_of(numbered.folders, column, threshold, chosen=chosen, on_progress=bar.update)
        groups = [[numbered.full_key(sample) for sample in group.tolist()] for group in result.groups]
    # Show the groups.
    if as_json:
        names = "path column metric threshold samples is_exact groups"
        print_json(facts_of(result, names, path=at, column=column, groups=groups))
    else:
        summary = f"{plural(sum(map(len, groups)), 'sample')} in {plural(len(groups), 'group')} of near-duplicates"
        text = f"{plural(result.samples, 'sample')} by {column}: {summary if groups else 'no near-duplicates'}"
        text += f" (similarity {result.threshold:g}){':' if groups else ''}"
        output_console().print(f"{escape_controls(at)}: {text}")
        show_groups(groups)
    return bool(groups)


def show_groups(groups: Sequence[Sequence[str]]) -> None:
    """Print the first samples of the first groups."""
    console = output_console()
    for group in groups[:_MAX_SHOWN]:
        more = f" … {len(group):,} in all" if len(group) > _MAX_SAMPLES else ""
        console.print(f"  {escape_controls(', '.join(group[:_MAX_SAMPLES]))}{more}")
    if len(groups) > _MAX_SHOWN:
        console.print(f"  … and {plural(len(groups) - _MAX_SHOWN, 'group')}; --json lists all")


def show_neighbours(ref: DatasetRef, key: str, column: str, count: int, *, as_json: bool) -> None:
    """Print the samples that are most similar to the sample of a key."""
    from loader.inspect import find_samples_of, print_table
    from loader.metadataset import named_datasets
    from loader.similarity import neighbours_of

    if len(named_datasets([ref])) > 1:
        raise StorageError("expected one dataset", path=ref.path, hint="name one of the datasets of the mix")
    with find_samples_of(ref, [key]) as finder:
        [(opened, sample)] = finder.find([key])
        nearest = neighbours_of(opened.folder, column, sample, count)
        rows = [(opened.folder.index.full_key(each.sample), each.similarity) for each in nearest]
    if as_json:
        for name, similarity in rows:
            print_json({"key": name, "similarity": round(similarity, 6)}, in_one_line=True)
        return
    print_table(output_console(), (">similarity", "sample"), [(f"{score:.4f}", name) for name, score in rows])
