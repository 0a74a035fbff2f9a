"""Exclude the samples that a lint found broken, in the split file of their dataset."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import ConfigError
from ...storage import Storage
from ..dataset_folder import DatasetFolder
from ..documents.split_config import SplitConfig, parse_split_config
from ..exclusions.change import exclude_names
from ..nv_meta import FOLDER
from .report import Finding


def exclude_broken_samples(dataset: DatasetFolder, findings: Iterable[Finding], *, checked: int | None = None) -> int:
    """Add broken and incomplete samples to ``exclude`` in the dataset's split file, after copying it to ``….bak``.

    Args:
        dataset: The dataset; its ``split_file`` is changed, and stays YAML or JSON.
        findings: Findings of a lint of this dataset.
        checked: Number of samples that the lint checked; None for all.

    Returns:
        Number of samples that were added.

    Raises:
        ConfigError: The split file is missing or invalid, or no checked sample would remain.
    """
    added = samples_to_exclude(dataset, findings, checked=checked)
    entry = exclude_names(dataset, added, reason="energon lint --fix") if added else None
    return 0 if entry is None else entry.samples


def samples_to_exclude(dataset: DatasetFolder, findings: Iterable[Finding], *, checked: int | None = None) -> list[str]:
    """Return the samples that :func:`exclude_broken_samples` would add, as ``<shard>/<key>``; writes nothing.

    Raises:
        ConfigError: The split file is missing or invalid, or no checked sample would remain.
    """
    storage, name = dataset.storage, dataset.split_file
    if name is None:
        raise ConfigError(
            "there is no split file to exclude samples in",
            file=storage.path(FOLDER),
            hint="run energon prepare --split-ratio 8,1,1 first",
        )
    file = f"{FOLDER}/{name}"
    known = set(_parse_split(storage, file, storage.read(file)).exclude)
    broken = [f"{finding.shard}/{finding.key}" for finding in findings if finding.is_sample]
    added = [sample for sample in dict.fromkeys(broken) if sample not in known]
    if not added:
        return []  # without reading the index, which may be damaged
    checked = len(dataset.index) if checked is None else min(checked, len(dataset.index))
    if 1 < checked <= len(added):
        which = "sample of the dataset" if checked == len(dataset.index) else "checked sample"
        raise ConfigError(
            f"every {which} is broken, so excluding them would leave none",
            file=storage.path(FOLDER),
            hint="check the findings: one fault in dataset.yaml, such as a wrong field_map, breaks all samples",
        )
    return added


def _parse_split(storage: Storage, file: str, data: bytes) -> SplitConfig:
    return parse_split_config(data.decode("utf-8", "replace"), file=storage.path(file))
