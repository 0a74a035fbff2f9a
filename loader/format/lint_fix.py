"""Leave the samples that a lint found broken out of training."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ConfigError
from .dataset_folder import DatasetFolder
from .findings import Finding
from .nv_meta import FOLDER, LOCK, SPLIT_YAML
from .prepare_split import read_split_config
from .split_config import SplitConfig, format_split_config

__all__ = ["exclude_broken_samples"]


def exclude_broken_samples(
    dataset: DatasetFolder, findings: Iterable[Finding], *, split_config: str = SPLIT_YAML
) -> int:
    """Add broken and incomplete samples to ``exclude`` in the split file, after copying it to ``split.yaml.bak``.

    Args:
        dataset: The dataset.
        findings: What a lint of it found.
        split_config: The split file.

    Returns:
        How many samples were added.

    Raises:
        ConfigError: There is no split file to add them to, or it says something wrong.
    """
    storage = dataset.storage
    file = f"{FOLDER}/{split_config}"
    with storage.lock(LOCK):
        config = read_split_config(storage, split_config)
        if config is None or not storage.exists(file):
            raise ConfigError(
                "there is no split file to exclude samples in",
                file=storage.path(file),
                do="run energon prepare --split-ratio 8,1,1 first",
            )
        known = set(config.exclude)
        broken = [f"{finding.shard}/{finding.key}" for finding in findings if finding.is_sample]
        added = [name for name in dict.fromkeys(broken) if name not in known]
        if added:
            with storage.create(f"{file}.bak") as backup:
                backup.write(storage.read(file))
            text = format_split_config(SplitConfig(split_parts=config.split_parts, exclude=(*config.exclude, *added)))
            with storage.create(file) as target:
                target.write(text.encode("utf-8"))
        return len(added)
