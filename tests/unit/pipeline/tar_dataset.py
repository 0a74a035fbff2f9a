"""Small prepared datasets of real tar shards, and their bytes as read by ``tarfile``."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from loader.format.dataset_ref import DatasetRef
from loader.format.documents.providers import LoadRequest
from loader.pipeline.reading.dataset_source import DatasetSource
from loader.prepare.plan import SplitRequest
from loader.samples.building.sample_builder import RawSample
from tests.e2e.dataset_tree import Samples, prepare, write_shard

TEXT_AND_JSON = (
    "sample_type: {__module__: megatron.energon, __class__: ImageClassificationSample}\n"
    "field_map: {image: txt, label: json}\n"
)
"""A ``dataset.yaml`` for samples of which only the parts ``txt`` and ``json`` are read."""


def texts(first: int, count: int) -> Samples:
    """Build samples of two parts each, whose sizes differ."""
    return {
        f"{number:03d}": {"txt": b"text %d" % number, "json": b'{"n": %d, "x": "%s"}' % (number, b"x" * (number % 9))}
        for number in range(first, first + count)
    }


def write_dataset(
    folder: Path, shards: Mapping[str, Samples], *, exclude: Sequence[str] = (), config: str | None = None
) -> Path:
    """Write and prepare a dataset: shards whose names start with ``val`` are for validation.

    Args:
        folder: The folder to write to.
        shards: Name → samples.
        exclude: Shards and samples to exclude.
        config: Content of ``dataset.yaml``; None omits the file, so that samples are crude.
    """
    for name, samples in shards.items():
        write_shard(folder / name, samples)
    split = SplitRequest(patterns=(("train", "(?!val).*"), ("val", "val.*")))
    if not any(name.startswith("val") for name in shards):
        split = SplitRequest(patterns=(("train", ".*"),))
    prepare(folder, split=split, files={} if config is None else {"dataset.yaml": config})
    if exclude:
        leave_out(folder, *exclude)
    return folder


def leave_out(folder: Path, *names: str) -> None:
    """Exclude samples or shards by name."""
    path = folder / ".nv-meta/split.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "exclude": list(names)}))


def raw_samples(folder: Path, *, source: int = 0, parts: Sequence[str] = ("txt", "json", "bin")) -> list[RawSample]:
    """Read the samples of a dataset with ``tarfile``, limited to some parts."""
    index = 0
    found: list[RawSample] = []
    for path in sorted(folder.glob("*.tar")):
        samples: dict[str, dict[str, bytes]] = {}
        with tarfile.open(path) as tar:
            for member in tar:
                key, _, name = member.name.partition(".")
                file = tar.extractfile(member)
                assert file is not None
                samples.setdefault(key, {})[name] = file.read()
        for key, each in samples.items():
            read = {name: each[name] for name in each if name in parts}
            found.append(RawSample(source, index, path.name, key, None, read))
            index += 1
    if all(len(sample.parts) == 1 for sample in found):
        return [sample._replace(part=name, data=data) for sample in found for name, data in sample.parts.items()]
    return found


def open_source(folder: Path, **options: Any) -> DatasetSource:
    """Open the training part of a dataset, with options of the request and of the source.

    With ``excluded_later``, its exclusions are those that came after a run had begun.
    """
    excluded_later = options.pop("excluded_later", False)
    own = {name: options.pop(name) for name in ("decoder", "described") if name in options}
    ref = DatasetRef(str(folder), trust_code=options.pop("trust_code", False))
    source = DatasetSource(request=LoadRequest(ref=ref, **options), **own)
    if excluded_later:
        source.begin_without("")
    return source
