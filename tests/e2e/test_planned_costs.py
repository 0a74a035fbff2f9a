"""Statistics compare the planned costs of samples with those that were measured, and name the column that is off."""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader import LoaderStats, WorkerConfig, get_savable_loader, get_train_dataset, sample_size_metric
from loader.dataset.opening import folder_at
from loader.format.columns.column_files import write_column
from loader.pipeline.measuring import recorder
from loader.pipeline.measuring.counts import CostSums
from tests.e2e.test_planned_runs import BALANCED, FILLED, PACKS, Tokens, data, tokens_of, write_tokens
from tests.e2e.text_dataset import write_texts

__all__ = ["data"]

MIX = """\
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    blend: [{weight: 1, path: exact}, {weight: 1, path: other}]
"""


@pytest.fixture(autouse=True)
def _measures_each_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure all micro-batches: how many are measured otherwise depends on the speed of the machine."""
    monkeypatch.setattr(recorder, "_MAX_SHARE", 1e6)


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a mix of a dataset whose column is exact, and one whose column was written by another tokenizer."""
    folder = tmp_path_factory.mktemp("costs")
    for name in ("exact", "other"):
        write_texts(folder / name, train=(41, 30), val=(5,), first=0 if name == "exact" else 5000)
    write_tokens(folder / "exact")
    dataset = folder_at(folder / "other")
    numbers = [int(dataset.index.full_key(n).rpartition("/")[2]) for n in range(len(dataset))]
    values = np.array([tokens_of(number) * 4 // 5 + number % 3 for number in numbers])
    write_column(dataset.storage, dataset.index, "tokens", values, made_by="energon stats --write tokens")
    (folder / "mix.yaml").write_text(MIX)
    return folder


class Measuring(Tokens):
    @sample_size_metric
    def tokens(self, sample: Any) -> int:
        return len(sample["tokens"])

    def batch(self, samples: list[Any]) -> Any:
        return [sample["__key__"] for sample in samples]


def stats_of(path: Path, encoder: Any, steps: int, *, workers: int = 0, **options: Any) -> LoaderStats:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=4)
    defaults = {"shuffle_buffer_size": 20, "max_samples_per_sequence": 5, "plan_window": 24}
    dataset = get_train_dataset(path, worker_config=config, task_encoder=encoder(), **defaults | options)
    with get_savable_loader(dataset) as loader:
        for _ in islice(loader, steps):
            pass
        return loader.stats()


@pytest.mark.parametrize("options", [PACKS, BALANCED, FILLED], ids=["packs", "balanced", "filled"])
def test_costs_that_are_exact_have_no_bias(options: dict[str, Any], data: Path) -> None:
    encoder = Tokens if options is PACKS else Measuring
    stats = stats_of(data / "texts", encoder, 40, **options)
    [(cost, sums)] = stats.costs.items()
    assert (cost, sums.bias, sums.samples > 100) == ("tokens", 0, True)
    assert sums.correlation == pytest.approx(1)
    assert not [line for line in stats.suggestions if line.startswith("plan:")]


def test_worker_processes_report_which_column_is_off(mix: Path) -> None:
    stats = stats_of(mix / "mix.yaml", Measuring, 150, workers=2, **BALANCED)
    exact, other = stats.sources
    assert exact.costs["tokens"].bias == 0
    assert 0.1 < other.costs["tokens"].bias < 0.3
    assert stats.costs["tokens"].samples == exact.costs["tokens"].samples + other.costs["tokens"].samples
    assert 0 < stats.costs["tokens"].bias < other.costs["tokens"].bias
    [line] = [line for line in stats.suggestions if line.startswith("plan:")]
    assert line.startswith(f"plan: costs 'tokens' of {other.name} measured ")
    assert f"energon stats {mix / 'other'} --write tokens" in line
    logged = stats.to_dict()
    assert logged["costs/tokens/bias"] == stats.costs["tokens"].bias
    assert 0.9 < logged["costs/tokens/correlation"] < 1
    assert stats.since(stats).costs["tokens"].samples == 0


def test_costs_without_a_metric_and_other_runs_are_not_measured(data: Path) -> None:
    assert stats_of(data / "texts", Tokens, 10, **BALANCED).costs == {}
    assert stats_of(data / "texts", Measuring, 10, batch_size=4, plan_window=None).costs == {}


def test_data_ranks_that_one_process_serves_have_their_costs_together(data: Path) -> None:
    config = WorkerConfig(rank=0, world_size=2, num_workers=0, lanes=4)
    build = partial(get_train_dataset, data / "texts", worker_config=config, task_encoder=Measuring())
    loader = get_savable_loader(build(shuffle_buffer_size=20, plan_window=24, **BALANCED), serves=[0, 1])
    for _ in islice(loader, 20):
        pass
    sums = loader.stats().costs["tokens"]
    assert (sums.bias, sums.samples) == (0, 160)


def test_costs_that_never_change_correlate() -> None:
    assert CostSums().bias == 0
    assert CostSums(3, 30.0, 33.0, 300.0, 363.0, 330.0).correlation == 1
    assert CostSums(2, 3.0, 3.0, 5.0, 5.0, 4.0).correlation == pytest.approx(-1)
