"""Leave the samples that a lint found broken out of training."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ConfigError
from .dataset_folder import DatasetFolder
from .findings import Finding
from .nv_meta import FOLDER, LOCK
from .split_config import SplitConfig, format_split_config, parse_split_config

__all__ = ["exclude_broken_samples"]


def exclude_broken_samples(dataset: DatasetFolder, findings: Iterable[Finding]) -> int:
    """Add broken and incomplete samples to ``exclude`` in the split file in force, after copying it to ``….bak``.

    Args:
        dataset: The dataset; its ``split_file`` is the one that changes, YAML or JSON as it was.
        findings: What a lint of it found.

    Returns:
        How many samples were added.

    Raises:
        ConfigError: There is no split file to add them to, it says something wrong, or no sample would be left.
    """
    storage = dataset.storage
    with storage.lock(LOCK):
        name = dataset.split_file
        if name is None:
            raise ConfigError(
                "there is no split file to exclude samples in",
                file=storage.path(FOLDER),
                do="run energon prepare --split-ratio 8,1,1 first",
            )
        file = f"{FOLDER}/{name}"
        before = storage.read(file)
        config = parse_split_config(before.decode("utf-8", "replace"), file=storage.path(file))
        known = set(config.exclude)
        broken = [f"{finding.shard}/{finding.key}" for finding in findings if finding.is_sample]
        added = [sample for sample in dict.fromkeys(broken) if sample not in known]
        if added and 1 < len(dataset.index) <= len(added):
            raise ConfigError(
                "every sample of the dataset is broken, so excluding them would leave none",
                file=storage.path(FOLDER),
                do="look at the findings: one fault in dataset.yaml, a field_map say, breaks all samples alike",
            )
        if added:
            with storage.create(f"{file}.bak") as backup:
                backup.write(before)
            config = SplitConfig(split_parts=config.split_parts, exclude=(*config.exclude, *added))
            with storage.create(file) as target:
                target.write(format_split_config(config, file=name).encode("utf-8"))
        return len(added)
