"""Write a new dataset to a repository of the Hugging Face Hub, with a dataset card."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase

from ...dataset.opening import folder_at
from ...dataset.tar import tar_index
from ...engine.journal import AlreadyDoneError
from ...engine.run import Engine
from ...errors import ConfigError
from ...format.documents.dataset_files import is_prepared
from ...storage import HubFolder, LocalStorage
from .new_output import check_outside

_MAX_PATTERNS = 20  # of a split part; more are no help to a reader
_NO_NAME = re.compile(r"[^A-Za-z0-9._]+")  # what no name of a split has on the hub

_HOW_TO_LOAD = """
```python
from energon_toolkit import get_savable_loader, get_train_dataset  # pip install "energon-toolkit[hf]"

options = {{"batch_size": 8, "shuffle_buffer_size": 1000, "max_samples_per_sequence": 100}}
loader = get_savable_loader(get_train_dataset("{url}", **options))
```
"""


@contextmanager
def new_output_folder(output: str, *, sources: Sequence[str], engine: Engine | None) -> Iterator[str]:
    """Yield the folder for what is to be in a repository; the end of the block publishes it.

    After an error or a kill, it stays on this machine, and the same command continues.

    Args:
        sources: Paths of what it is made of, which must not contain the output.
        engine: Where the command runs.
    """
    check_outside(output, sources)
    if engine is not None and engine.is_partial:
        hint = "write to a folder that all of them see, then reshard it to the repository"
        raise ConfigError("shares cannot write to one repository", at=output, hint=hint)
    with HubFolder(output) as folder:
        try:
            yield folder.path
        except AlreadyDoneError as done:  # by a run that was killed before its commit
            publish(folder)
            done.at = output
            raise
        publish(folder)


def publish(folder: HubFolder) -> None:
    """Publish what was written, with a dataset card if the repository has none."""
    name = folder.url.rpartition("/")[2]
    folder.publish(f"Add {name}", dataset_card(folder.path, folder.url, folder.license) if folder.license else "")


def dataset_card(path: str, url: str, license_id: str) -> str:
    """Return a dataset card: its licence; and of a prepared folder, its split parts and how to load it.

    Args:
        url: Where the files of ``path`` will be.
        license_id: An identifier of the hub; ``none`` names no licence.
    """
    head = [] if license_id == "none" else [f"license: {license_id}"]
    body = [f"# {url.rpartition('/')[2]}"]
    if is_prepared(LocalStorage(path)):
        dataset = folder_at(path)
        index, split = tar_index(dataset), dataset.documents.split
        shards = {shard.name: shard for shard in index.shards}
        folder = "/".join([*url.split("/")[5:], ""])
        head += ["configs:", "- config_name: default", "  data_files:"]
        body += ["", "| split | samples | shards | bytes |", "| --- | ---: | ---: | ---: |"]
        # The hub's viewer reads the shards by the patterns of each split part.
        for part, names in (split.split_parts if split else {"train": tuple(shards)}).items():
            chosen = [shards[name] for name in names]
            samples, size_bytes = sum(shard.samples for shard in chosen), sum(shard.info.size_bytes for shard in chosen)
            body.append(f"| {part} | {samples:,} | {len(chosen):,} | {size_bytes:,} |")
            if chosen:
                head += [f"  - split: {_NO_NAME.sub('_', part)}", "    path:"]
                head += [f'    - "{folder}{pattern}"' for pattern in _patterns(names, [*shards])]
        body += ["", f"Parts of a sample: {', '.join(f'`{name}`' for name in index.part_names)}."]
        body.append(_HOW_TO_LOAD.format(url=url))
    return "\n".join(["---", *head, "---", "", *body, ""])


def _patterns(names: Sequence[str], every: Sequence[str]) -> list[str]:
    """Return patterns that match the names and no others; without such patterns, the names themselves.

    >>> _patterns(["a_00.tar", "a_01.tar"], ["a_00.tar", "a_01.tar", "b_00.tar"])
    ['a_*.tar']
    >>> _patterns(["a_00.tar"], ["a_00.tar", "a_01.tar"])
    ['a_00.tar']
    """
    patterns = list(dict.fromkeys(re.sub(r"\d+(?=\.tar$)", "*", name) for name in names))
    others = frozenset(every).difference(names)
    is_exact = not any(fnmatchcase(name, pattern) for name in others for pattern in patterns)
    return patterns if is_exact and len(patterns) <= _MAX_PATTERNS else list(names)
