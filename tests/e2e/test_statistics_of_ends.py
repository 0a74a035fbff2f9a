"""Statistics of loaders whose loops ended, and of workers that ended."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader import DefaultTaskEncoder, StatsOptions, WorkerConfig, get_savable_loader, get_train_dataset
from loader.prepare.plan import SplitRequest
from tests.e2e.dataset_tree import prepare, write_shard

CONFIG = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ends")
    write_shard(folder / "0.tar", {f"{number:05d}": {"txt": b"%05d" % number} for number in range(120)})
    prepare(folder, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": CONFIG})
    return folder


def loader_of(path: Path, *, workers: int, encoder: Any = None, repeat: bool = True, **options: Any) -> Any:
    dataset = get_train_dataset(
        path,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=4),
        task_encoder=encoder or DefaultTaskEncoder(),
        batch_size=4,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        repeat=repeat,
    )
    return get_savable_loader(dataset, **options)


@pytest.mark.parametrize("options", [{"workers": 0}, {"workers": 2}, {"workers": 2, "worker_type": "thread"}])
def test_samples_count_after_the_loader_was_closed(data: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    report = tmp_path / "stats.jsonl"
    loader = loader_of(data, stats=StatsOptions(file=report), **options)
    with loader:
        assert sum(1 for _ in islice(loader, 45)) == 45
    stats = loader.stats()
    assert stats.samples >= 180
    assert stats.samples == sum(source.samples for source in stats.sources)
    assert stats.repeats >= 60
    assert f'"samples": {stats.samples},' in report.read_text()


class Stuck(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Do not return from C code for one sample, the first time.

    Args:
        noted: A file that marks that it happened.
    """

    def __init__(self, noted: Path) -> None:
        super().__init__()
        self.noted = noted

    def encode_sample(self, sample: Any) -> Any:
        if sample.text == "00050" and not self.noted.exists():
            self.noted.touch()
            re.match(r"(a+)+$", "a" * 60 + "b")
        return sample


def test_the_wait_for_a_worker_that_hangs_is_a_cause_of_its_own(data: Path, tmp_path: Path) -> None:
    loader = loader_of(data, workers=2, encoder=Stuck(tmp_path / "hung"), worker_timeout_s=1.0)
    with loader:
        for _ in islice(loader, 60):
            pass
    stats = loader.stats()
    assert stats.restarts == 1
    assert stats.waited_for["replacement"] >= 0.9
    assert next(iter(stats.waited_for)) == "replacement"
    assert stats.waited_s == pytest.approx(sum(stats.waited_for.values()))
    assert any(line.startswith("bound by replaced workers: ") for line in stats.suggestions)
