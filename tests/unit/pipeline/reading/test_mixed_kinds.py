"""Every sample of a mix of datasets of several kinds arrives, equal to the one that its dataset gives alone."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from loader import Cooker, DefaultTaskEncoder, SampleDecoder, WorkerConfig, get_loader, get_train_dataset
from loader.format.jsonl.index import prepare_jsonl
from loader.storage import open_storage
from tests.e2e.dataset_tree import prepare, write_shard
from tests.e2e.mixed_data import write_metadataset
from tests.elastic_runs import fingerprint
from tests.tables import CRUDE_YAML, write_lines, write_rows
from tests.token_files import numbered, write_tokens

COUNT = 40
PARTS = {"txt": b"text %d", "json": b'{"n": %d}', "bin": b"bytes %d"}
TYPED = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
KINDS = ("tar1", "tar2", "tar3", "typed", "lines", "rows", "tokens")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    for parts, name, config in (
        (1, "tar1", CRUDE_YAML),
        (2, "tar2", CRUDE_YAML),
        (3, "tar3", CRUDE_YAML),
        (2, "typed", TYPED),
    ):
        samples = {
            f"{number:03d}": {part: text % number for part, text in [*PARTS.items()][:parts]} for number in range(COUNT)
        }
        write_shard(folder / name / f"{name}.tar", samples)
        prepare(
            folder / name,
            split=None,
            files={"dataset.yaml": config, "split.yaml": f"split_parts: {{train: [{name}.tar]}}\n"},
        )
    write_lines(folder / "lines.jsonl", range(COUNT))
    prepare_jsonl(open_storage(folder), "lines.jsonl")
    write_rows(folder / "rows.parquet", range(COUNT))
    write_tokens(folder / "tokens", numbered(COUNT))
    return folder


class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    def __init__(self, decoder: Any, cooks: bool) -> None:
        super().__init__()
        self.decoder = decoder
        self.cookers = [Cooker(dict)] if cooks else []  # type: ignore[misc] # of this encoder


def path_of(folder: Path, kind: str) -> str:
    return str(folder / {"lines": "lines.jsonl", "rows": "rows.parquet", "tokens": "tokens.bin"}.get(kind, kind))


def samples_of(path: str, encoder: Encoder, workers: int = 0) -> list[bytes]:
    """Return the bytes of all samples of a pass, sorted."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=2)
    dataset = get_train_dataset(
        path,
        batch_size=None,
        shuffle_buffer_size=20,
        max_samples_per_sequence=10,
        repeat=False,
        worker_config=config,
        task_encoder=encoder,
    )
    loader: Any = get_loader(dataset)
    try:
        plain = [sample if isinstance(sample, dict) else vars(sample) for sample in loader]
    finally:
        loader.close()
    return sorted(
        fingerprint({name: value for name, value in sample.items() if name != "__restore_key__"}) for sample in plain
    )


def check(folder: Path, kinds: tuple[str, ...], encoder: Encoder, workers: int = 0) -> None:
    entries = [{"path": path_of(folder, kind)} for kind in kinds]
    mix = write_metadataset(
        folder / "mix.yaml", {"train": {"blend_epochized": [e | {"repetitions": 1} for e in entries]}}
    )
    alone = sorted(sample for kind in kinds for sample in samples_of(path_of(folder, kind), encoder))
    assert len(alone) == COUNT * len(kinds)
    assert samples_of(str(mix), encoder, workers) == alone


@pytest.mark.parametrize("cooks", [False, True])
@pytest.mark.parametrize("decoder", [None, SampleDecoder()], ids=["bytes", "decoded"])
def test_samples_of_two_kinds_arrive_as_alone(folder: Path, decoder: Any, cooks: bool) -> None:
    for kinds in [*combinations(KINDS, 2), KINDS]:
        check(folder, kinds, Encoder(decoder, cooks))


def test_samples_of_all_kinds_arrive_from_workers(folder: Path) -> None:
    check(folder, KINDS, Encoder(SampleDecoder(), cooks=True), workers=2)
