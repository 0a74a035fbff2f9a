"""A loader measures what its training loop waits for, with workers of each kind."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from torch.utils.data import get_worker_info

from loader import (
    ConfigError,
    DataLoader,
    DefaultTaskEncoder,
    FilterDataset,
    GroupBatchDataset,
    IterMapDataset,
    LoaderStats,
    MapDataset,
    PackingDataset,
    SavableDataset,
    SkipSample,
    StatsOptions,
    TextSample,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    sample_size_metric,
)
from loader.pipeline.reading import shard_reads
from loader.prepare.plan import SplitRequest
from loader.storage import local
from tests.e2e.dataset_tree import prepare, write_shard
from tests.logical_clock import logical_clock, spend

__all__ = ["logical_clock"]
pytestmark = pytest.mark.usefixtures("logical_clock")
CONFIG = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
WORKERS = [
    pytest.param({"workers": 2}, id="processes"),
    pytest.param({"workers": 2, "worker_type": "thread"}, id="threads"),
    pytest.param({"workers": 0}, id="none"),
]


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a blend of two datasets: 120 samples of 8 bytes, and 40 of 11."""
    folder = tmp_path_factory.mktemp("statistics")
    for name, count in (("one", 120), ("another", 40)):
        samples = {f"{number:05d}": {"txt": f"{name} {number:03d}".encode()[:11]} for number in range(count)}
        write_shard(folder / name / "0.tar", samples)
        prepare(folder / name, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": CONFIG})
    document = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
    (folder / "mix.yaml").write_text(document + "    - {weight: 3, path: one}\n    - {weight: 1, path: another}\n")
    return folder


class Encoding(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Spend some time in hooks.

    Args:
        encode_s: Seconds for a sample in ``encode_sample``.
        batch_s: Seconds for a micro-batch in ``batch``.
        skipped: Text of samples that are skipped.
    """

    def __init__(self, encode_s: float = 0.0, batch_s: float = 0.0, skipped: str | None = None) -> None:
        super().__init__()
        self.encode_s, self.batch_s, self.skipped = encode_s, batch_s, skipped

    def encode_sample(self, sample: TextSample) -> TextSample:
        if self.skipped is not None and self.skipped in sample.text:
            raise SkipSample
        if self.encode_s:
            spend(self.encode_s)
        return sample

    def batch(self, samples: list[TextSample]) -> list[str]:
        if self.batch_s:
            spend(self.batch_s)
        return [sample.text for sample in samples]

    @sample_size_metric
    def characters(self, sample: TextSample) -> int:
        return len(sample.text)


def loader_of(
    path: Path,
    *,
    workers: int = 2,
    encoder: Any = None,
    stats: Any = True,
    rank: int = 0,
    ranks: int = 1,
    **options: Any,
) -> DataLoader[Any]:
    dataset = get_train_dataset(
        path,
        worker_config=WorkerConfig(rank=rank, world_size=ranks, num_workers=workers, lanes=4),
        task_encoder=encoder or Encoding(),
        batch_size=4,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
    )
    return get_savable_loader(dataset, stats=stats, **options)


def run(loader: DataLoader[Any], steps: int, *, step_s: float = 0.0) -> LoaderStats:
    """Run a training loop that works for some time in each step, and return the statistics."""
    with loader:
        for _ in islice(loader, steps):
            spend(step_s)
        return loader.stats()


def main_cause(stats: LoaderStats) -> str:
    return next(cause for cause in stats.waited_for if cause != "start")


def suggests(stats: LoaderStats, beginning: str) -> bool:
    """Return True if a suggestion begins so; the first one may be about the memory of a machine that is overloaded."""
    return any(line.startswith(beginning) for line in stats.suggestions)


class OddMetrics(Encoding):
    """Metrics, in the order of their names: one fails, one is not a number; ``characters`` is measured all the same."""

    @sample_size_metric
    def a_failing(self, sample: TextSample) -> int:
        raise ValueError(sample.text)

    @sample_size_metric
    def b_unknown(self, sample: TextSample) -> float:
        return float("nan")


def test_metrics_that_fail_or_are_no_numbers_spoil_no_other(mix: Path) -> None:
    stats = run(loader_of(mix / "one", encoder=OddMetrics(), workers=0), 30)
    assert set(stats.sizes) == {"characters"}
    assert stats.sizes["characters"] == pytest.approx(8 * 120, rel=0.5)
    json.dumps(stats.to_dict(), allow_nan=False)


# ------------------------------------------------------------------------------------------------------ causes


@pytest.mark.parametrize("options", WORKERS)
def test_a_slow_hook_is_named_as_the_cause(mix: Path, options: dict[str, Any]) -> None:
    stats = run(loader_of(mix / "one", encoder=Encoding(encode_s=0.01), **options), 40)
    assert main_cause(stats) == "encode_sample", stats
    assert stats.waited_for["encode_sample"] > 0.5 * (stats.waited_s - stats.waited_for.get("start", 0)), stats
    assert sum(stats.waited_for.values()) == pytest.approx(stats.waited_s, rel=0.02)
    assert suggests(stats, "bound by encode_sample: "), stats.suggestions


def test_a_slow_batch_is_named(mix: Path) -> None:
    assert main_cause(run(loader_of(mix / "one", encoder=Encoding(batch_s=0.01), workers=0), 40)) == "batch"


@pytest.mark.parametrize("options", WORKERS)
def test_a_slow_storage_is_named_as_the_cause(
    mix: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_at = local._LocalFile.read_at

    def slowly(file: Any, *arguments: Any) -> Any:
        spend(0.005)
        return read_at(file, *arguments)

    monkeypatch.setattr(local._LocalFile, "read_at", slowly)
    monkeypatch.setattr(shard_reads, "_MIN_COALESCED", 1 << 30)  # a read for each sample
    stats = run(loader_of(mix / "one", **options), 80)
    assert main_cause(stats) == "storage", stats
    assert suggests(stats, "bound by storage: "), stats.suggestions


@pytest.mark.parametrize("options", WORKERS[:2])
def test_a_fast_loader_has_nothing_to_gain(mix: Path, options: dict[str, Any]) -> None:
    with loader_of(mix / "one", **options) as loader:
        for _ in islice(loader, 60):
            spend(0.05)
        stats = queued(loader)
    assert stats.waited_s < 0.01, stats  # the work of the training loop is no wait
    assert suggests(stats, "nothing to gain: "), stats.suggestions


def queued(loader: DataLoader[Any]) -> LoaderStats:
    """Return the statistics as soon as micro-batches wait."""
    end_s = time.monotonic() + 60
    while not (stats := loader.stats()).queue and time.monotonic() < end_s:
        time.sleep(0.01)
    assert stats.queue > 0
    return stats


class Users(SavableDataset[Any]):
    """A dataset of a user that iterates its samples itself, slowly."""

    def __init__(self, dataset: SavableDataset[Any]) -> None:
        super().__init__(dataset)
        self.inner = dataset

    def __iter__(self) -> Iterator[Any]:
        for sample in self.inner:
            yield slow(sample)

    def len_worker(self, worker_idx: int | None = None) -> int:
        return 100


@pytest.mark.parametrize(
    ("stage", "cause"),
    [
        (lambda dataset: MapDataset(dataset, slow), "slow"),
        (lambda dataset: IterMapDataset(dataset, slow_items), "slow_items"),
        (lambda dataset: FilterDataset(dataset, slow), "slow"),
        (lambda dataset: PackingDataset(dataset, 8, slow_groups, list), "select_samples_to_pack"),
        (lambda dataset: GroupBatchDataset(dataset, 4, slow_key, list), "batch_group_criterion"),
        (Users, "Users"),
    ],
)
@pytest.mark.filterwarnings("ignore:Users iterates its samples itself")
def test_functions_of_stages_are_named(mix: Path, stage: Callable[[Any], Any], cause: str) -> None:
    dataset = get_train_dataset(
        mix / "one",
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2),
        batch_size=None,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
    )
    loader = get_savable_loader(stage(dataset))
    for _ in islice(loader, 20):
        pass
    assert main_cause(loader.stats()) == cause, loader.stats()


def slow(sample: Any) -> Any:
    spend(0.01)
    return sample


def slow_items(samples: Iterator[Any]) -> Iterator[Any]:
    for sample in samples:
        yield slow(sample)


def slow_groups(samples: list[Any]) -> list[list[Any]]:
    for sample in samples:
        slow(sample)
    return [[sample] for sample in samples]


def slow_key(sample: Any) -> tuple[int, None]:
    slow(sample)
    return 0, None


def test_the_format_that_is_decoded_is_named(tmp_path: Path) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (600, 600)).save(picture, "JPEG")
    write_shard(tmp_path / "0.tar", {f"{number:03d}": {"jpg": picture.getvalue()} for number in range(8)})
    document = "sample_type: {__module__: megatron.energon, __class__: ImageSample}\nfield_map: {image: jpg}\n"
    prepare(tmp_path, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": document})
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)
    dataset = get_train_dataset(
        tmp_path, worker_config=config, batch_size=2, shuffle_buffer_size=None, max_samples_per_sequence=None
    )
    loader = get_savable_loader(dataset)
    for _ in islice(loader, 100):
        pass
    stats = loader.stats()
    assert stats.decodes == "JPEG"
    assert stats.waited_for["decode"] > 0


def test_a_loader_that_did_nothing_has_no_figures(mix: Path) -> None:
    stats = loader_of(mix / "one").stats()
    assert (stats.steps, stats.samples, stats.waited_share, stats.suggestions) == (0, 0, 0, ())


@pytest.mark.slow
def test_spawned_workers_are_measured(mix: Path) -> None:
    stats = run(loader_of(mix / "mix.yaml", workers=1, multiprocessing_context="spawn"), 10)
    assert stats.samples >= 40
    assert all(source.samples for source in stats.sources)


def test_the_time_that_workers_take_to_start_is_a_cause_of_its_own(mix: Path) -> None:
    stats = run(loader_of(mix / "one", encoder=Encoding(encode_s=0.2)), 2)
    assert stats.waited_for["start"] > 0.2, stats  # a micro-batch takes 0.8 s


# ------------------------------------------------------------------------------------------------------ counts


@pytest.mark.parametrize("options", WORKERS)
def test_samples_are_counted_by_dataset(mix: Path, options: dict[str, Any]) -> None:
    encoder = Encoding(skipped="another 007")
    texts = []
    with loader_of(mix / "mix.yaml", encoder=encoder, **options) as loader:
        for batch in islice(loader, 100):
            texts += batch
        stats = loader.stats()
    one, another = stats.sources
    assert (Path(one.name).name, Path(another.name).name) == ("one:train", "another:train")
    ahead = stats.samples - stats.skipped - len(texts)
    assert 0 <= ahead <= 4 * 100  # bundles that wait on the rank, more of them if it is slow
    assert one.samples + another.samples == stats.samples
    assert one.size_bytes == one.samples * len("one 000")
    assert another.size_bytes == another.samples * len("another 000")
    assert one.samples == pytest.approx(3 * another.samples, rel=0.1)
    assert stats.skipped == stats.dropped["encode_sample skipped"] == another.skipped > 0
    assert one.skipped == 0
    assert stats.repeats == pytest.approx(stats.samples - 160, abs=60)
    mean = sum(map(len, texts)) / len(texts)
    assert stats.sizes["characters"] == pytest.approx(mean * (stats.samples - stats.skipped), rel=0.1)
    assert stats.steps == stats.step == 100


def test_without_workers_the_counts_are_exact(mix: Path) -> None:
    stats = run(loader_of(mix / "one", workers=0), 45)
    assert (stats.samples, stats.size_bytes, stats.repeats) == (180, 180 * 7, 60)


def test_a_replaced_worker_is_not_counted_twice(mix: Path, tmp_path: Path) -> None:
    class Dying(Encoding):
        def encode_sample(self, sample: TextSample) -> TextSample:
            if sample.text == "one 050" and get_worker_info() is not None and not (tmp_path / "died").exists():
                (tmp_path / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return sample

    with loader_of(mix / "one", encoder=Dying()) as loader:
        for _ in islice(loader, 60):
            spend(0.002)
        stats = loader.stats()
    assert stats.restarts == 1
    ahead = stats.samples - 4 * stats.steps
    assert 0 <= ahead == 4 * (sum(worker.batches for worker in stats.workers) - stats.steps)


def test_a_restored_loader_begins_again_and_keeps_the_step(mix: Path) -> None:
    with loader_of(mix / "one") as first:
        for _ in islice(first, 10):
            pass
        state = first.save_state_rank()
    loader = loader_of(mix / "one")
    loader.restore_state_rank(state)
    stats = run(loader, 5)
    assert (stats.steps, stats.step) == (5, 15)
    assert stats.samples < 10 * 4 + 5 * 4


def test_statistics_change_no_micro_batch(mix: Path) -> None:
    batches = [[*islice(loader_of(mix / "mix.yaml", workers=0, stats=stats), 30)] for stats in (True, False)]
    assert batches[0] == batches[1]


def test_a_loader_without_statistics_says_so(mix: Path) -> None:
    with pytest.raises(ConfigError, match="measures nothing"):
        loader_of(mix / "one", stats=False).stats()


# ------------------------------------------------------------------------------------------------------ reports


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="loader")
    return caplog


def test_a_line_is_logged_at_intervals_and_suggestions_at_the_end(
    mix: Path, log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    options = StatsOptions(every_s=0.1, file=tmp_path / "stats.jsonl")
    run(loader_of(mix / "one", encoder=Encoding(encode_s=0.02), stats=options), 30)
    lines = logged(log)
    reports = [line for line in lines if line.startswith("step ")]
    assert len(reports) >= 2, lines
    assert " samples/s · waited " in reports[-1]
    assert any("(encode_sample " in line for line in reports), lines
    assert " · queue " in reports[-1]
    assert any(line.startswith("bound by encode_sample: ") for line in lines), lines
    documents = [json.loads(line) for line in (tmp_path / "stats.jsonl").read_text().splitlines()]
    assert len(documents) - len(reports) in (0, 1)  # the last step may be one with a line
    assert documents[-1]["steps"] == 30
    assert documents[-1]["waited_for/encode_sample_s"] > 0


def logged(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.name == "loader"]


def test_suggestions_come_once_also_if_the_last_step_was_reported(
    mix: Path, log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    options = StatsOptions(every_s=1e-9, file=tmp_path / "stats.jsonl")  # a line for each step
    loader = loader_of(mix / "one", encoder=Encoding(encode_s=0.02), workers=0, stats=options)
    run(loader, 10)
    loader.close()
    lines = logged(log)
    assert [line.partition(" · ")[0] for line in lines if line.startswith("step ")] == [
        f"step {step}" for step in range(1, 11)
    ]
    assert len([line for line in lines if line.startswith("bound by encode_sample: ")]) == 1, lines
    assert len((tmp_path / "stats.jsonl").read_text().splitlines()) == 10


def test_the_dict_is_flat(mix: Path) -> None:
    found = run(loader_of(mix / "one"), 5).to_dict()
    assert all(isinstance(value, int | float) for value in found.values())
    assert {"steps", "samples_per_s", "waited_share", "worker/1/rss_bytes"} <= found.keys()
    assert found["worker/1/rss_bytes"] > 1e6


def test_a_file_that_cannot_be_written_ends_no_training(mix: Path, log: pytest.LogCaptureFixture) -> None:
    options = StatsOptions(every_s=0.01, file="/dev/full")
    assert run(loader_of(mix / "one", workers=0, stats=options), 20, step_s=0.01).steps == 20
    assert "cannot write statistics" in log.text


@pytest.mark.parametrize("option", ["file", "prometheus_file"])
def test_a_file_without_a_folder_is_refused_before_the_first_step(mix: Path, tmp_path: Path, option: str) -> None:
    arguments: dict[str, Any] = {option: tmp_path / "gone" / "stats.prom"}
    options = StatsOptions(**arguments)
    with pytest.raises(ConfigError, match="there is no folder for this file of statistics"):
        run(loader_of(mix / "one", workers=0, stats=options), 1)
    (tmp_path / "gone").mkdir()
    assert run(loader_of(mix / "one", workers=0, stats=options), 1).steps == 1


# ------------------------------------------------------------------------------------------------------ profiles


@pytest.mark.parametrize("options", WORKERS)
def test_a_profile_has_a_track_of_each_worker_and_the_training_loop(
    mix: Path, options: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    with loader_of(mix / "one", encoder=Encoding(encode_s=0.001), **options) as loader:
        batches = iter(loader)
        next(batches)
        with loader.profile(path, steps=20) as profile:
            for _ in islice(batches, 40):
                pass
    assert profile.stats is not None
    assert profile.stats.steps == 40
    document = json.loads(path.read_text())
    events = document["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    workers = ["worker 0", "worker 1"] if options["workers"] else ["worker 0"]
    assert [*tracks.values()] == ["training loop", *workers]
    calls = [event for event in events if event["ph"] == "X"]
    assert all(event["ts"] >= 0 and event["dur"] >= 0 and event["pid"] == 0 for event in calls)
    assert len([event for event in calls if event["name"] == "next"]) == 20
    for worker in workers:
        track = next(number for number, name in tracks.items() if name == worker)
        names = {event["name"] for event in calls if event["tid"] == track}
        assert {"storage", "decode", "encode_sample", "batch", "micro-batch"} <= names
    for track in tracks:
        assert_nested([event for event in calls if event["tid"] == track])


def assert_nested(events: list[dict[str, Any]]) -> None:
    """Check that of two events of a track, one contains the other, or they are apart; viewers need this."""
    ends: list[float] = []
    for event in events:
        while ends and ends[-1] <= event["ts"] + 1e-6:
            ends.pop()
        end = event["ts"] + event["dur"]
        assert not ends or end <= ends[-1] + 0.002, event
        ends.append(end)


def test_mistakes_are_refused_before_the_first_step(mix: Path, tmp_path: Path) -> None:
    loader = loader_of(mix / "one", workers=0)
    with pytest.raises(ConfigError, match=r"there is no folder for the trace: '.*gone'"):
        loader.profile(tmp_path / "gone" / "trace.json")
    with pytest.raises(ConfigError, match="expected a file for the trace, found a folder"):
        loader.profile(tmp_path)
    (tmp_path / "folder.prom").mkdir()
    with pytest.raises(ConfigError, match="expected a file as file, found a folder"):
        StatsOptions(file=tmp_path)
    with pytest.raises(ConfigError, match="expected a file as prometheus_file, found a folder"):
        StatsOptions(prometheus_file=tmp_path / "folder.prom")
    with pytest.raises(ConfigError, match="at least 1 of rounds, or None, found 0"):
        loader.headroom(rounds=0)


def test_headroom_is_what_a_perfect_loader_would_gain(mix: Path) -> None:
    loader = loader_of(mix / "one", workers=0, encoder=Encoding(batch_s=0.03))
    loader.headroom(rounds=2)
    batches = []
    for batch in islice(loader, 120):
        batches.append(tuple(batch))
        spend(0.03 if len(batches) < 80 else 0)  # both rounds are over then
    headroom = loader.stats().headroom
    assert headroom is not None
    assert headroom.gain == pytest.approx(0.5, rel=0.01)
    assert headroom.loaded_steps == headroom.cached_steps == 32
    assert len({*batches[20:37]}) == 4  # cached ones
    expected = [tuple(batch) for batch in islice(loader_of(mix / "one", workers=0), loader.stats().steps)]
    assert [*dict.fromkeys(expected)] == [*dict.fromkeys(batches)]  # the new ones are those of the run


def test_a_worker_that_waits_for_a_full_pipe_is_idle(tmp_path: Path) -> None:
    samples = {f"{number:05d}": {"txt": b"x" * 8000} for number in range(100)}
    write_shard(tmp_path / "0.tar", samples)
    prepare(tmp_path, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": CONFIG})
    stats = run(loader_of(tmp_path, workers=1, prefetch_factor=8), 60, step_s=0.02)
    assert stats.workers[0].busy_s < stats.elapsed_s / 3
    assert stats.workers[0].idle_s > stats.elapsed_s / 2
    assert stats.worker_s["transport"] < stats.elapsed_s / 4


def test_waits_are_attributed_when_statistics_are_read_in_each_step(mix: Path) -> None:
    loader = loader_of(mix / "mix.yaml", workers=1, encoder=Encoding(encode_s=0.001))
    with loader:
        for _ in islice(loader, 400):
            loader.stats()
        waited_for = loader.stats().waited_for
    assert waited_for["encode_sample"] > 4 * waited_for["transport"]
