"""The near-duplicates and neighbours of samples, found by a column of vectors, as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from loader.errors import StorageError, escape_controls

from ...console import facts_of, output_console, print_json, print_reports
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
    """Print the groups of near-duplicates of each dataset; return True if there are some."""
    from loader.metadataset import choose_samples, open_datasets
    from loader.similarity import near_duplicates_of

    documents, has_groups = [], False
    with open_datasets(datasets) as opened:
        for choice in choose_samples(opened, query, at=", ".join(dataset.path for dataset in datasets)):
            folder = choice.opened.folder
            with ProgressBar("Comparing samples", unit="samples") as bar:
                result = near_duplicates_of(folder, column, threshold, chosen=choice.numbers, on_progress=bar.update)
            groups = [[folder.index.full_key(sample) for sample in group.tolist()] for group in result.groups]
            has_groups |= bool(groups)
            documents.append(
                facts_of(
                    result,
                    "path column metric threshold samples is_exact groups",
                    path=choice.opened.dataset.path,
                    column=column,
                    groups=groups,
                )
            )
            if not as_json:
                _show_groups(documents[-1])
    if as_json:
        print_reports(documents, is_list=len(documents) != 1)
    return has_groups


def _show_groups(document: dict[str, Any]) -> None:
    console, groups = output_console(), document["groups"]
    head = f"{escape_controls(document['path'])}: {document['samples']:,} samples by {document['column']}"
    if not groups:
        console.print(f"{head}: no near-duplicates (similarity {document['threshold']:g})")
        return
    from loader.inspect import plural

    samples = sum(map(len, groups))
    console.print(
        f"{head}: {samples:,} samples in {plural(len(groups), 'group')} of near-duplicates"
        f" (similarity {document['threshold']:g}):"
    )
    for group in groups[:_MAX_SHOWN]:
        more = f" … {len(group):,} in all" if len(group) > _MAX_SAMPLES else ""
        console.print(f"  {escape_controls(', '.join(group[:_MAX_SAMPLES]))}{more}", markup=False, highlight=False)
    if len(groups) > _MAX_SHOWN:
        console.print(f"  … and {len(groups) - _MAX_SHOWN:,} groups; --json lists all")


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
