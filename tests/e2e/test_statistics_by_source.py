"""Statistics name the sources of sizes and skips, also above stages that blend, join, repeat or reorder items."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader import (
    BatchDataset,
    BlendDataset,
    ConcatDataset,
    DataLoader,
    DefaultTaskEncoder,
    FilterDataset,
    GroupBatchDataset,
    IterMapDataset,
    LoaderStats,
    MapDataset,
    MixBatchDataset,
    PackingDataset,
    RepeatDataset,
    SavableDataset,
    ShuffleBufferDataset,
    SkipSample,
    SortPoolDataset,
    TextSample,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    sample_size_metric,
)
from loader.dataset.opening import folder_at
from loader.format.columns.column_files import write_column
from loader.pipeline.measuring import recorder
from loader.prepare.plan import SplitRequest
from loader.training.stats.report_files import metrics_of, prometheus_text
from tests.e2e.dataset_tree import prepare, write_shard

CONFIG = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
LENGTHS = {"one": 7, "another": 11}


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a blend of two datasets: 120 samples of 7 characters, and 40 of 11."""
    folder = tmp_path_factory.mktemp("by_source")
    for name, count in (("one", 120), ("another", 40)):
        samples = {f"{number:05d}": {"txt": f"{name} {number:03d}".encode()} for number in range(count)}
        write_shard(folder / name / "0.tar", samples)
        prepare(folder / name, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": CONFIG})
    document = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
    (folder / "mix.yaml").write_text(document + "    - {weight: 3, path: one}\n    - {weight: 1, path: another}\n")
    return folder


@pytest.fixture(autouse=True)
def _measures_each_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure all micro-batches: how many are measured otherwise depends on the speed of the machine."""
    monkeypatch.setattr(recorder, "_MAX_SHARE", 1e6)


class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    def encode_sample(self, sample: TextSample) -> TextSample:
        return sample

    def batch(self, samples: list[Any]) -> list[Any]:
        return list(samples)

    @sample_size_metric
    def characters(self, sample: TextSample) -> int:
        return len(sample.text)


class Skipping(Encoder):
    def encode_sample(self, sample: TextSample) -> TextSample:
        return keep(sample)


class Packing(Encoder):
    def select_samples_to_pack(self, samples: list[TextSample]) -> list[list[TextSample]]:
        kept = [sample for sample in samples if is_kept(sample)]
        return [kept[start : start + 3] for start in range(0, len(kept), 3)]

    def pack_selected_samples(self, samples: list[TextSample]) -> list[str]:
        return [sample.text for sample in samples]


class MeasuredPacks(Packing):
    @sample_size_metric(after="packing")
    def packed(self, pack: list[str]) -> int:
        return 8 * len(pack)


class Grouping(Encoder):
    def batch_group_criterion(self, sample: TextSample) -> tuple[Any, None]:
        return keep(sample).text[-1], None


def is_kept(sample: TextSample) -> bool:
    """Return False for a tenth of the samples of each dataset."""
    return not sample.text.endswith("7")


def keep(sample: TextSample) -> TextSample:
    if not is_kept(sample):
        raise SkipSample
    return sample


def kept_pairs(samples: Any) -> Any:
    """Yield kept samples; raise for the others."""
    for sample in samples:
        yield keep(sample)


def text(sample: TextSample) -> Any:
    return keep(sample).text[-1]


def chain(path: Path, *, workers: int = 0, encoder: Any = None, batch_size: int | None = None, **options: Any) -> Any:
    return get_train_dataset(
        path,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=4),
        task_encoder=encoder or Encoder(),
        batch_size=batch_size,
        shuffle_buffer_size=10,
        max_samples_per_sequence=20,
        **options,
    )


def finite(path: Path, workers: int = 0) -> Any:
    return get_val_dataset(
        path,
        split_part="train",
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=4),
        task_encoder=Encoder(),
        batch_size=None,
    )


def run(dataset: SavableDataset[Any], steps: int, **options: Any) -> LoaderStats:
    loader: DataLoader[Any] = get_savable_loader(dataset, **options)
    with loader:
        for _ in islice(loader, steps):
            pass
        return loader.stats()


def assert_by_source(stats: LoaderStats, *, skips: bool = True, sizes: bool = True, buffered: int = 0) -> None:
    """Check that all skips have a source, each its share, and that sizes are those of the kept samples.

    Args:
        stats: The statistics.
        skips: A tenth of the samples is skipped.
        sizes: Sizes are measured.
        buffered: Samples in buffers, which were not skipped yet.
    """
    assert {Path(source.name).name for source in stats.sources} == {"one:train", "another:train"}
    assert sum(source.skipped for source in stats.sources) == stats.skipped
    assert (stats.skipped > 0) == skips
    for source in stats.sources:
        name = Path(source.name).name.partition(":")[0]
        assert source.samples > 20
        if skips:
            assert abs(source.skipped - 0.1 * source.samples) <= 4 + 0.1 * buffered, source
        if sizes:
            kept = source.samples - source.skipped
            assert source.sizes["characters"] == pytest.approx(LENGTHS[name] * kept)
    if sizes:
        assert stats.sizes["characters"] == pytest.approx(sum(source.sizes["characters"] for source in stats.sources))


@pytest.mark.parametrize("options", [{"workers": 2}, {"workers": 0}], ids=["processes", "none"])
@pytest.mark.parametrize("encoder", [Encoder(), Skipping(), Grouping()], ids=lambda one: type(one).__name__)
@pytest.mark.sampled(8)
def test_sizes_and_skips_of_a_mix_have_sources(mix: Path, encoder: Any, options: dict[str, Any]) -> None:
    stats = run(chain(mix / "mix.yaml", encoder=encoder, batch_size=4, **options), 80)
    assert_by_source(stats, skips=type(encoder) is not Encoder, buffered=80)


@pytest.mark.parametrize("workers", [0, 2])
def test_sizes_and_skips_of_packs_have_sources(mix: Path, workers: int) -> None:
    dataset = chain(mix / "mix.yaml", encoder=Packing(), batch_size=2, packing_buffer_size=24, workers=workers)
    assert_by_source(run(dataset, 60), buffered=96)


def test_the_size_of_a_pack_is_divided_among_its_samples(mix: Path) -> None:
    dataset = chain(mix / "mix.yaml", encoder=MeasuredPacks(), batch_size=2, packing_buffer_size=24)
    stats = run(dataset, 60)
    for source in stats.sources:
        assert source.sizes["packed"] == pytest.approx(8 * (source.samples - source.skipped))


ABOVE: dict[str, Callable[[SavableDataset[Any]], SavableDataset[Any]]] = {
    "filter": lambda blend: BatchDataset(FilterDataset(blend, is_kept), 4, list),
    "map": lambda blend: BatchDataset(MapDataset(blend, keep), 4, list),
    "iter_map": lambda blend: BatchDataset(IterMapDataset(blend, kept_pairs), 4, list),
    "shuffle": lambda blend: BatchDataset(FilterDataset(ShuffleBufferDataset(blend, 30), is_kept), 4, list),
    "group": lambda blend: GroupBatchDataset(blend, 4, lambda sample: (text(sample), None), list),
    "pool": lambda blend: SortPoolDataset(blend, pool_size=16, batch_size=4, key=lambda sample: int(text(sample))),
    "packing": lambda blend: PackingDataset(blend, 24, Packing().select_samples_to_pack, list),
    "batches": lambda blend: FilterDataset(BatchDataset(blend, 1, list), lambda batch: is_kept(batch[0])),
    "nested": lambda blend: BatchDataset(FilterDataset(BlendDataset((blend, 1)), is_kept), 4, list),
}


@pytest.mark.parametrize("above", ABOVE)
@pytest.mark.sampled(4)
def test_sizes_and_skips_above_a_blend_of_chains_have_sources(mix: Path, above: str) -> None:
    blend: SavableDataset[Any] = BlendDataset((chain(mix / "one"), 3), (chain(mix / "another"), 1))
    assert_by_source(run(ABOVE[above](blend), 120), buffered=100)


@pytest.mark.parametrize("workers", [0, 2])
def test_sizes_and_skips_of_repeated_passes_have_sources(mix: Path, workers: int) -> None:
    joined = ConcatDataset(finite(mix / "one", workers), finite(mix / "another", workers))
    stats = run(BatchDataset(FilterDataset(RepeatDataset(joined, repeats=4), is_kept), 4, list), 1000)
    assert [(source.samples, source.skipped) for source in stats.sources] == [(480, 48), (160, 16)]
    assert_by_source(stats)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.sampled(2)
def test_passes_that_are_left_before_their_end_are_counted(mix: Path, workers: int) -> None:
    passes: RepeatDataset[Any] = RepeatDataset(finite(mix / "one", workers), repeats=30.25)
    assert run(BatchDataset(passes, 4, list), 10_000).samples == 3630


def test_sizes_and_skips_below_a_blend_have_sources(mix: Path) -> None:
    inputs = [(chain(mix / name, encoder=Skipping()), weight) for name, weight in (("one", 3), ("another", 1))]
    assert_by_source(run(MixBatchDataset(*inputs, batch_size=4), 80))


def test_sizes_and_skips_of_a_blend_by_volume_have_sources(mix: Path) -> None:
    document = (mix / "mix.yaml").read_text() + "    blend_weight_unit: characters\n"
    (mix / "by_volume.yaml").write_text(document)
    dataset = chain(mix / "by_volume.yaml", encoder=Skipping(), batch_size=4)
    assert_by_source(run(dataset, 100))


@pytest.fixture(scope="module")
def uneven(mix: Path) -> Path:
    """Write a blend by volume, within another one, of three datasets with texts of 3 to 200 characters."""
    for name in "abc":
        samples = {f"{at:05d}": {"txt": (name + "x" * (at * at % 199 + 2)).encode()} for at in range(150)}
        write_shard(mix / name / "0.tar", samples)
        prepare(mix / name, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": CONFIG})
    document = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n"
    document += "    blend_weight_unit: characters\n    blend:\n"
    document += "      - {weight: 3, path: a}\n      - {weight: 1, path: inner.yaml}\n"
    (mix / "uneven.yaml").write_text(document)
    (mix / "inner.yaml").write_text(document.replace("path: a", "path: b").replace("path: inner.yaml", "path: c"))
    return mix / "uneven.yaml"


class Delivered(Encoder):
    """Counts the characters of each dataset that the training loop has."""

    def __init__(self) -> None:
        self.found = {"a": 0, "b": 0, "c": 0}

    def add(self, batches: Any) -> None:
        for text in (sample if isinstance(sample, str) else sample.text for batch in batches for sample in batch):
            self.found[text[0]] += len(text)


class DeliveredPacks(Delivered):
    """The same for packs of 3, in which characters are counted."""

    def select_samples_to_pack(self, samples: list[TextSample]) -> list[list[TextSample]]:
        return [samples[start : start + 3] for start in range(0, len(samples), 3)]

    def pack_selected_samples(self, samples: list[TextSample]) -> str:
        return samples[0].text[0] + "".join(sample.text for sample in samples)

    @sample_size_metric(after="packing")
    def characters(self, pack: str) -> int:  # type: ignore[override] # packs are texts
        return len(pack)


class DeliveredSkips(Delivered):
    def encode_sample(self, sample: TextSample) -> TextSample:
        if len(sample.text) % 7 == 0:
            raise SkipSample
        return sample


@pytest.mark.parametrize(
    ("encoder_class", "options"), [(Delivered, {}), (DeliveredSkips, {}), (DeliveredPacks, {"packing_buffer_size": 12})]
)
def test_the_sizes_of_a_blend_by_volume_are_exact(
    uneven: Path, encoder_class: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_MAX_SHARE", 1e-12)  # one micro-batch is measured
    encoder = encoder_class()
    with get_savable_loader(chain(uneven, encoder=encoder, batch_size=1, **options)) as loader:
        for steps in (1, 70, 100):
            encoder.add(islice(loader, steps))
            assert_exact(loader.stats(), encoder.found)
        state = loader.save_state_rank()
    later = encoder_class()
    restored: DataLoader[Any] = get_savable_loader(chain(uneven, encoder=later, batch_size=1, **options))
    restored.restore_state_rank(state)
    with restored:
        later.add(islice(restored, 60))
        assert_exact(restored.stats(), later.found)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.sampled(2)
def test_the_sizes_of_a_blend_by_volume_are_exact_to_its_end(
    uneven: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_MAX_SHARE", 1e-12)
    encoder, folder = Delivered(), uneven.parent

    def characters(sample: TextSample) -> int:
        return len(sample.text)

    inner: Any = BlendDataset(*((finite(folder / name, workers), 1) for name in "bc"), size=characters)
    blend: Any = BlendDataset((finite(folder / "a", workers), 3), (inner, 1), size=characters)
    with get_savable_loader(BatchDataset(blend, 2, list)) as loader:
        encoder.add(loader)
        assert_exact(loader.stats(), encoder.found)
        encoder.add(loader)  # the next pass
        assert_exact(loader.stats(), encoder.found)


@pytest.mark.parametrize("kind", ["thread", "fork"])
@pytest.mark.sampled(2)
def test_micro_batches_that_a_shutdown_drops_are_not_counted(uneven: Path, kind: Any) -> None:
    encoder = Delivered()
    dataset = chain(uneven, encoder=encoder, batch_size=1, workers=2)
    loader = get_savable_loader(dataset, worker_type=kind, prefetch_factor=8)
    for _ in range(4):
        with loader:
            for batch in islice(loader, 10):
                encoder.add([batch])
                time.sleep(0.005)  # the workers fill their queues
    assert_exact(loader.stats(), encoder.found)
    assert loader.stats().samples == 40


@pytest.mark.parametrize("kind", ["thread", "fork"])
def test_workers_that_are_closed_have_sent_most_of_their_counts(uneven: Path, kind: Any) -> None:
    encoder = Delivered()
    with get_savable_loader(chain(uneven, encoder=encoder, batch_size=1, workers=2), worker_type=kind) as loader:
        encoder.add(islice(loader, 1000))
    stats = loader.stats()
    found = {Path(source.name).name[0]: source.sizes["characters"] for source in stats.sources}
    assert all(found[name] >= 0.8 * delivered for name, delivered in encoder.found.items())
    assert stats.samples >= 800


def assert_exact(stats: LoaderStats, delivered: dict[str, int]) -> None:
    found = {Path(source.name).name[0]: source.sizes.get("characters", 0) for source in stats.sources}
    assert found == delivered
    assert stats.sizes["characters"] == sum(delivered.values())


class WithoutMetric(DefaultTaskEncoder[Any, Any, Any, Any]):
    def encode_sample(self, sample: TextSample) -> TextSample:
        return keep(sample)

    def batch(self, samples: list[Any]) -> list[Any]:
        return list(samples)


@pytest.mark.parametrize("workers", [0, 2])
def test_sizes_that_only_a_column_has_are_counted(mix: Path, workers: int) -> None:
    for name, length in LENGTHS.items():
        opened = folder_at(str(mix / name))
        write_column(opened.storage, opened.index, "characters", np.full(len(opened.index), length))
    document = (mix / "mix.yaml").read_text() + "    blend_weight_unit: characters\n"
    (mix / "by_column.yaml").write_text(document)
    dataset = chain(mix / "by_column.yaml", encoder=WithoutMetric(), batch_size=4, workers=workers)
    assert_by_source(run(dataset, 100), buffered=80)


def test_the_sizes_of_a_blend_by_hand_are_counted_also_of_a_mix(mix: Path) -> None:
    inputs = [(chain(mix / name, encoder=WithoutMetric()), weight) for name, weight in (("mix.yaml", 3), ("one", 1))]

    def characters(sample: TextSample) -> int:
        return len(sample.text)

    stats = run(BatchDataset(BlendDataset(*inputs, size=characters), 4, list), 100)
    assert [round(source.sizes["characters"] / (source.samples - source.skipped), 6) for source in stats.sources] == [
        LENGTHS[Path(source.name).name.partition(":")[0]] for source in stats.sources
    ]
    assert stats.sizes["characters"] == pytest.approx(sum(source.sizes["characters"] for source in stats.sources))
    assert stats.sizes.keys() == {"characters"}


def test_reports_have_the_sizes_and_skips_of_each_source(mix: Path) -> None:
    stats = run(chain(mix / "mix.yaml", encoder=Skipping(), batch_size=4), 80)
    one = stats.sources[0]
    found = stats.to_dict()
    assert found[f"source/{one.name}/sizes/characters"] == one.sizes["characters"]
    assert found[f"source/{one.name}/skipped"] == one.skipped
    lines = prometheus_text(metrics_of(stats))
    labels = f'rank="0",source="{one.name}"'
    assert f"energon_loader_source_skipped_samples_total{{{labels}}} {one.skipped}\n" in lines
    assert f"energon_loader_source_repeated_samples_total{{{labels}}} {one.repeats}\n" in lines
    sizes = [metric for metric in metrics_of(stats) if metric.name == "source_sample_size_total"]
    assert [(metric.labels["unit"], metric.value) for metric in sizes] == [
        ("characters", source.sizes["characters"]) for source in stats.sources
    ]
    assert stats.since(stats).sources[0].sizes == {"characters": 0}
