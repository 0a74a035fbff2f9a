"""Differences between real checkpoints, and between a checkpoint and data, are those that a restore refuses."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader import StateError, WorkerConfig, get_savable_loader, get_train_dataset
from loader.inspect.diff import compare_paths
from tests.e2e.drawing_pipelines import Data, train, write_data
from tests.elastic_runs import Pipeline, Spread, running, sealed, through_json


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("diff"))


def save(path: Path, build: Any, *, steps: int, ranks: int = 2) -> str:
    """Run some steps, and save the states of all ranks in a file."""
    with running(Pipeline(build=build), Spread(ranks)) as run:
        for _ in range(steps):
            run.step()
        path.write_text(json.dumps(through_json(run.states())))
    return str(path)


def texts(before: str, after: str, **options: Any) -> list[str]:
    return [str(one) for one in compare_paths(before, after, **options).differences]


def test_a_refused_restore_lists_the_differences_of_the_checkpoints(data: Data, tmp_path: Path) -> None:
    saved = save(tmp_path / "a.json", partial(train, data), steps=3)
    for options, expected in (
        ({"batch_size": 4}, "batch_size 3 → 4"),
        ({"shuffle_buffer_size": 21}, "shuffle_buffer_size 20 → 21"),
        ({"path": "more"}, "samples 157 → 40"),
    ):
        other: Any = partial(train, data, **options)
        loader = get_savable_loader(other(WorkerConfig(rank=0, world_size=1, num_workers=0)))
        with pytest.raises(StateError) as caught:
            loader.restore_state_global(json.loads(Path(saved).read_text()))
        report = compare_paths(saved, save(tmp_path / "b.json", other, steps=3))
        assert report.resumes is False
        found = [str(one) for one in report.differences]
        refused = [line.strip() for line in caught.value.message.splitlines()[1:]]
        assert any(expected in line for line in refused)
        assert refused == found[: len(refused)]


def test_two_steps_of_one_run_differ_in_their_progress(data: Data, tmp_path: Path) -> None:
    saved = [save(tmp_path / f"{steps}.json", partial(train, data), steps=steps) for steps in (3, 5)]
    report = compare_paths(*saved)
    assert report.resumes is True
    assert [str(one) for one in report.differences] == ["batch 6 → 10"]
    assert compare_paths(saved[0], saved[0]).is_same


def test_positions_of_lanes_at_the_same_step(data: Data, tmp_path: Path) -> None:
    saved = save(tmp_path / "a.json", partial(train, data), steps=3)
    states = json.loads(Path(saved).read_text())
    lane = next(iter(states[0]["lane"]))
    states[0]["lane"][lane]["0 read"] = 1
    states[0] = sealed(states[0])
    (tmp_path / "b.json").write_text(json.dumps(states))
    [line] = texts(saved, str(tmp_path / "b.json"))
    assert line.startswith(f"lane {lane}: 0 read ")
    assert line.endswith(" → 1")


def test_a_checkpoint_and_the_data_that_it_was_saved_with(data: Data, tmp_path: Path) -> None:
    saved = save(tmp_path / "a.json", partial(train, data), steps=3)
    [source] = [one["path"] for one in _sources(json.loads(Path(saved).read_text())[0]["dataset"])]
    report = compare_paths(saved, source)
    assert (report.resumes, report.is_same) == (True, True)
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    assert compare_paths(saved, str(copy)).is_same  # data may be moved
    more = save(tmp_path / "more.json", partial(train, data, path="more"), steps=1)
    [other] = [one["path"] for one in _sources(json.loads(Path(more).read_text())[0]["dataset"])]
    report = compare_paths(saved, other)
    assert report.resumes is False
    found = [str(one).partition(": ")[2] for one in report.differences]
    assert "samples 157 → 40" in found
    assert {line.split()[0] for line in found} >= {"samples", "uuid", "checksum"}


def write_mix(path: Path, *leaves: tuple[Any, Path]) -> str:
    blend = [{"weight": weight, "path": str(folder)} for weight, folder in leaves]
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": {"blend": blend}}}
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.mark.parametrize("batch_size", [3, 4])
def test_a_mix_with_other_weights_or_datasets_is_named_as_the_refused_restore_names_it(
    data: Data, tmp_path: Path, batch_size: int
) -> None:
    def built(path: str, config: WorkerConfig, batch_size: int = 3) -> Any:
        return get_train_dataset(
            path, worker_config=config, batch_size=batch_size, shuffle_buffer_size=20, max_samples_per_sequence=5
        )

    texts, more = data.texts, data.more
    mix = write_mix(tmp_path / "mix.yaml", (1, texts), (2, more))
    saved = save(tmp_path / "a.json", partial(built, mix), steps=3)
    same = write_mix(tmp_path / "same.yaml", (10, texts), (20, more))
    assert (compare_paths(saved, same).resumes, compare_paths(saved, mix).resumes) == (True, True)
    for changed, expected in (
        (
            write_mix(tmp_path / "heavier.yaml", (3, texts), (1, more)),
            [f"{texts}, train: weight 0.333 → 0.75", f"{more}, train: weight 0.667 → 0.25"],
        ),
        (
            write_mix(tmp_path / "fewer.yaml", (1, texts)),
            [f"{texts}, train: weight 0.333 → 1", f"{more}, train: weight 0.667 → none"],
        ),
        (str(texts), [f"{texts}, train: weight 0.333 → 1", f"{more}, train: weight 0.667 → none"]),
    ):
        report = compare_paths(saved, changed)
        assert (report.resumes, [str(one) for one in report.differences]) == (False, expected)
        other = partial(built, changed, batch_size=batch_size)
        loader = get_savable_loader(other(WorkerConfig(rank=0, world_size=1, num_workers=0)))
        with pytest.raises(StateError) as caught:
            loader.restore_state_global(json.loads(Path(saved).read_text()))
        refused = [line.strip() for line in caught.value.message.splitlines()[1:]]
        assert refused == ["batch: batch_size 3 → 4"] * (batch_size == 4) + expected
        assert [
            str(one) for one in compare_paths(saved, save(tmp_path / "b.json", other, steps=3)).differences
        ] == refused


def test_the_order_of_the_datasets_of_a_mix_counts(data: Data, tmp_path: Path) -> None:
    def built(path: str, config: WorkerConfig) -> Any:
        return get_train_dataset(
            path, worker_config=config, batch_size=3, shuffle_buffer_size=20, max_samples_per_sequence=5
        )

    mix = write_mix(tmp_path / "mix.yaml", (1, data.texts), (2, data.more))
    saved = save(tmp_path / "a.json", partial(built, mix), steps=3)
    report = compare_paths(saved, write_mix(tmp_path / "turned.yaml", (2, data.more), (1, data.texts)))
    assert report.resumes is False
    assert [str(one) for one in report.differences] == [
        f"read: order of the datasets {data.texts}, train, {data.more}, train → {data.more}, train, {data.texts}, train"
    ]


def _sources(identity: Any) -> Any:
    if isinstance(identity, list):
        return [source for part in identity for source in _sources(part)]
    return [identity] if isinstance(identity, dict) and "samples" in identity and "path" in identity else []


def test_a_file_without_states_and_states_of_two_runs(data: Data, tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("{}")
    saved = save(tmp_path / "a.json", partial(train, data), steps=1)
    with pytest.raises(StateError, match="found none"):
        compare_paths(str(tmp_path / "empty.json"), saved)
    other = save(tmp_path / "b.json", partial(train, data, batch_size=4), steps=1)
    both = [*json.loads(Path(saved).read_text()), *json.loads(Path(other).read_text())]
    (tmp_path / "both.json").write_text(json.dumps(both))
    with pytest.raises(StateError, match="found those of 2"):
        compare_paths(saved, str(tmp_path / "both.json"))


def test_weights_that_change_are_named_by_dataset(data: Data, tmp_path: Path) -> None:
    def built(path: str, config: WorkerConfig) -> Any:
        return get_train_dataset(
            path, worker_config=config, batch_size=3, shuffle_buffer_size=20, max_samples_per_sequence=5
        )

    texts, more = data.texts, data.more
    mix = write_mix(tmp_path / "mix.yaml", ({0: 1, 10: 3}, texts), (1, more))
    later = write_mix(tmp_path / "later.yaml", ({0: 1, 12: 3}, texts), (1, more))
    constant = write_mix(tmp_path / "constant.yaml", (1, texts), (3, more))
    saved = save(tmp_path / "a.json", partial(built, mix), steps=3)
    assert compare_paths(saved, mix).resumes
    lines = {path: [str(one) for one in compare_paths(saved, path).differences] for path in (later, constant)}
    assert lines[later] == [
        f"{texts}, train: weight schedule 0.5, 0.75 from step 10 → 0.5, 0.75 from step 12",
        f"{more}, train: weight schedule 0.5, 0.25 from step 10 → 0.5, 0.25 from step 12",
    ]
    assert lines[constant] == [
        f"{texts}, train: weight schedule 0.5, 0.75 from step 10 → 0.25",
        f"{more}, train: weight schedule 0.5, 0.25 from step 10 → 0.75",
    ]
    assert not compare_paths(mix, mix).differences
    assert [str(one) for one in compare_paths(mix, later).differences] == [
        f"train: {texts} (train): share schedule '0.5, 0.75 from step 10' → '0.5, 0.75 from step 12'",
        f"train: {more} (train): share schedule '0.5, 0.25 from step 10' → '0.5, 0.25 from step 12'",
    ]
    found = [str(one) for one in compare_paths(mix, constant).differences]
    assert f"train: {texts} (train): share schedule '0.5, 0.75 from step 10' → none" in found
    # The texts of long schedules are cut, and their differences are found nevertheless.
    ramps = [
        write_mix(
            tmp_path / f"ramp{number}.yaml",
            ({"change": "linear", "at": {0: 1, 100 + number: 3, 200: 3}}, texts),
            (1, more),
        )
        for number in range(2)
    ]
    saved = save(tmp_path / "b.json", partial(built, ramps[0]), steps=3)
    assert compare_paths(saved, ramps[0]).resumes
    assert compare_paths(saved, ramps[1]).differences
    assert compare_paths(ramps[0], ramps[1]).differences
