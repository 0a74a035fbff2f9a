"""``energon checkpoint migrate``: a run continues with an edited mix as if the restore allowed the change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from loader import StateError, TaskEncoder, TextSample, WorkerConfig, get_savable_loader, get_train_dataset
from loader.training.states.run_state import RunState
from tests.cli.run_energon import RunEnergon
from tests.e2e.text_dataset import write_texts

HEAD = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits: {train: {blend: ["


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write three datasets, and mixes of them."""
    folder = tmp_path_factory.mktemp("migrate")
    for first, name in enumerate("abc"):
        write_texts(folder / name, train=(41, 13, 30), val=(17, 20), first=1000 * first)
    (folder / "one.yaml").write_text(f"{HEAD}{{path: a, weight: 2}}, {{path: b, weight: 1}}]}}}}\n")
    (folder / "two.yaml").write_text(f"{HEAD}{{path: c, weight: 1}}, {{path: a, weight: 1}}]}}}}\n")
    (folder / "three.yaml").write_text(f"{HEAD}{{path: b, weight: 1}}, {{path: a, weight: 3}}]}}}}\n")
    return folder


class Shout(TaskEncoder[Any, Any, Any, Any]):
    def encode_sample(self, sample: TextSample) -> TextSample:
        return TextSample.extend(sample, text=sample.text.upper())


def loaders(mix: Path, ranks: int, *, lanes: int | None = None) -> list[Any]:
    """Build the loaders of all ranks; only a new run is given its number of lanes."""
    return [
        get_savable_loader(
            get_train_dataset(
                mix,
                batch_size=3,
                shuffle_buffer_size=20,
                max_samples_per_sequence=5,
                task_encoder=Shout(),
                worker_config=WorkerConfig(rank=rank, world_size=ranks, num_workers=0, lanes=lanes),
            )
        )
        for rank in range(ranks)
    ]


def keys_of(ranks: list[Any], steps: int) -> list[list[str]]:
    """Return the keys of micro-batches in the order of the run."""
    iterators = [iter(loader) for loader in ranks]
    return [next(iterator).__key__ for _ in range(steps) for iterator in iterators]


def save(folder: Path, ranks: list[Any]) -> None:
    folder.mkdir(parents=True)
    for rank, loader in enumerate(ranks):
        torch.save({"loader": loader.save_state_rank(), "step": 5}, folder / f"rank_{rank}.pt")


def states_in(folder: Path) -> list[Any]:
    return [torch.load(path, weights_only=True)["loader"] for path in sorted(folder.glob("*.pt"))]


def restored(mix: Path, ranks: int, states: list[Any], *, allow: bool = False) -> list[Any]:
    found = loaders(mix, ranks)
    for loader in found:
        loader.restore_state_global(states, allow_mix_change=allow)
    return found


def test_a_mix_that_is_migrated_twice_is_the_edited_run(energon: RunEnergon, folder: Path, tmp_path: Path) -> None:
    run = loaders(folder / "one.yaml", 2, lanes=4)
    keys_of(run, 9)
    save(tmp_path / "first", run)
    with pytest.raises(StateError, match="the mix of datasets has changed"):
        restored(folder / "two.yaml", 2, states_in(tmp_path / "first"))

    done = energon("checkpoint", "migrate", tmp_path / "first", folder / "two.yaml", tmp_path / "second")
    lines = done.out.splitlines()
    assert done.code == 0, done.err
    assert f"{folder}/c, train: new, weight 0.5" in lines
    assert any(line.startswith(f"{folder}/a, train: continues at ") for line in lines)
    assert any(line.startswith(f"{folder}/b, train: gone") for line in lines)
    assert lines[-1].startswith("the mix changes before micro-batch 18: wrote 2 files to ")
    assert "not copied, since only states are written: step" in done.err
    assert [state["batch"] for state in states_in(tmp_path / "first")] == [18, 18]  # unchanged

    allowed = restored(folder / "two.yaml", 1, states_in(tmp_path / "first"), allow=True)
    migrated = restored(folder / "two.yaml", 1, states_in(tmp_path / "second"))
    assert keys_of(migrated, 20) == keys_of(allowed, 20)

    save(tmp_path / "third", migrated)
    done = energon("checkpoint", "migrate", tmp_path / "third", folder / "three.yaml", tmp_path / "fourth", "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["batch"] == 38
    assert any(leaf.startswith(f"{folder}/b, train: continues at ") for leaf in document["datasets"])  # it was gone
    states = [allowed[0].save_state_rank()]
    for ranks in (4, 2):
        once_more = restored(folder / "three.yaml", ranks, states, allow=True)
        expected = keys_of(once_more, 20 // ranks)
        assert keys_of(restored(folder / "three.yaml", ranks, states_in(tmp_path / "fourth")), 20 // ranks) == expected
    told = energon("checkpoint", "info", tmp_path / "fourth").out
    assert told.count("edited ") == 2


def test_a_schedule_of_weights_is_migrated_as_an_edit(energon: RunEnergon, folder: Path, tmp_path: Path) -> None:
    weights = "{path: a, weight: {0: 2, 12: 0}}, {path: b, weight: 1}", "{path: a, weight: {0: 2, 14: 1}}, {path: b}"
    mixes = [folder / f"scheduled{number}.yaml" for number in range(2)]
    for mix, text in zip(mixes, weights, strict=True):
        mix.write_text(f"{HEAD}{text}]}}}}\n")
    run = loaders(mixes[0], 2, lanes=4)
    keys_of(run, 10)
    save(tmp_path / "first", run)
    done = energon("checkpoint", "migrate", tmp_path / "first", mixes[1], tmp_path / "second")
    assert done.code == 0, done.err
    assert "weight schedule 0.667, 0 from step 12 → 0.667, 0.5 from step 14" in done.out
    allowed = restored(mixes[1], 1, states_in(tmp_path / "first"), allow=True)
    migrated = restored(mixes[1], 1, states_in(tmp_path / "second"))
    assert keys_of(migrated, 40) == keys_of(allowed, 40)
    # The schedule is removed.
    save(tmp_path / "third", migrated)
    done = energon("checkpoint", "migrate", tmp_path / "third", folder / "one.yaml", tmp_path / "fourth")
    assert "weight schedule 0.667, 0.5 from step 14 → 0.667" in done.out
    states = states_in(tmp_path / "fourth")
    expected = keys_of(restored(folder / "one.yaml", 2, [allowed[0].save_state_rank()], allow=True), 10)
    assert keys_of(restored(folder / "one.yaml", 2, states), 10) == expected


def test_info_shows_the_share_of_each_dataset_and_its_schedule(
    energon: RunEnergon, folder: Path, tmp_path: Path
) -> None:
    mix = folder / "shown.yaml"
    (folder / "inner.yaml").write_text(f"{HEAD}{{path: a, weight: {{0: 2, 12: 0}}}}, {{path: b, weight: 1}}]}}}}\n")
    mix.write_text(f"{HEAD}{{path: inner.yaml, weight: {{0: 1, 8: 3}}}}, {{path: c, weight: 1}}]}}}}\n")
    run = loaders(mix, 2, lanes=4)
    keys_of(run, 2)
    save(tmp_path / "saved", run)
    done = energon("checkpoint", "info", tmp_path / "saved")
    assert done.code == 0, done.err
    lines = [line for line in done.out.splitlines() if line.startswith("data ")]
    expected = [
        "0.333, 0.5 from step 8, 0 from step 12",
        "0.167, 0.25 from step 8, 0.75 from step 12",
        "0.5, 0.25 from step 8",
    ]
    assert [line.partition(", share ")[2] for line in lines] == expected
    found = energon("checkpoint", "info", tmp_path / "saved", "--json").json["runs"][0]["datasets"]
    assert [one["schedule"] for one in found] == expected
    assert [one["share"] for one in found] == pytest.approx([1 / 3, 1 / 6, 1 / 2])


def test_a_mix_that_has_not_changed_is_the_same_run(energon: RunEnergon, folder: Path, tmp_path: Path) -> None:
    run = loaders(folder / "one.yaml", 1)
    keys_of(run, 5)
    save(tmp_path / "first", run)
    done = energon("checkpoint", "migrate", tmp_path / "first", folder / "one.yaml", tmp_path / "second")
    assert (done.code, len(done.out.splitlines())) == (0, 1)
    assert done.out.startswith("the mix has not changed: wrote 1 file to ")
    assert states_in(tmp_path / "second") == states_in(tmp_path / "first")


def test_a_mix_in_which_no_dataset_of_the_state_continues_is_doubted(
    energon: RunEnergon, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = loaders(folder / "one.yaml", 1)
    keys_of(run, 5)
    save(tmp_path / "first", run)
    others = folder / "others.yaml"
    others.write_text(f"{HEAD}{{path: c, weight: 1}}, {{path: a, split_part: val}}]}}}}\n")
    doubt = f"no dataset of the state continues ({folder}/a, val; {folder}/b, train): is this the state of this run?"
    for options in ((), ("-q",), ("--json",)):
        target = tmp_path / f"second {options}"
        done = energon("checkpoint", "migrate", tmp_path / "first", others, target, *options)
        assert done.code == 0
        assert f"\nwarning: {doubt}\n" in f"\n{done.err}"
        assert "--json" not in options or done.json["warnings"] == [doubt]
    restored(others, 1, states_in(tmp_path / "first"), allow=True)
    assert doubt in [record.getMessage() for record in caplog.records]

    caplog.clear()
    done = energon("checkpoint", "migrate", tmp_path / "first", folder / "two.yaml", tmp_path / "third", "--json")
    assert done.json["warnings"] == []
    assert "warning:" not in done.err
    restored(folder / "two.yaml", 1, states_in(tmp_path / "first"), allow=True)
    assert "is this the state of this run" not in caplog.text


def test_a_change_that_cannot_be_exact_is_refused(energon: RunEnergon, folder: Path, tmp_path: Path) -> None:
    run = loaders(folder / "one.yaml", 2)
    keys_of(run, 2)
    save(tmp_path / "first", run)
    done = energon("checkpoint", "migrate", tmp_path / "first", folder / "missing.yaml", tmp_path / "second")
    assert done.code != 0
    assert "missing.yaml" in done.err

    (tmp_path / "first" / "rank_1.pt").unlink()
    done = energon("checkpoint", "migrate", tmp_path / "first", folder / "two.yaml", tmp_path / "second")
    assert done.code != 0
    assert "expected one state of each of the 2 ranks" in done.err
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize("damage", [{}, {"0": {"made": 3}}])
def test_states_that_no_loader_would_restore_are_not_converted(
    energon: RunEnergon, folder: Path, tmp_path: Path, damage: dict[str, Any]
) -> None:
    run = loaders(folder / "one.yaml", 2, lanes=4)
    keys_of(run, 5)
    states = [loader.save_state_rank() for loader in run]
    states[0]["lane"] = damage
    path = tmp_path / "states.json"
    path.write_text(json.dumps(states))
    for command in (("migrate", path, folder / "two.yaml", tmp_path / "new"), ("redist", path, tmp_path / "new")):
        more = ("--new-world-size", "4") if command[0] == "redist" else ()
        done = energon("checkpoint", *command, *more)
        assert (done.code, done.out) == (1, "")
        assert "this state is damaged" in done.err
        assert f"at: {path}" in done.err
        assert not (tmp_path / "new").exists()


def test_a_run_of_one_dataset_may_become_a_mix(energon: RunEnergon, folder: Path, tmp_path: Path) -> None:
    run = loaders(folder / "a", 1, lanes=12)
    keys_of(run, 7)
    save(tmp_path / "first", run)
    done = energon("checkpoint", "migrate", tmp_path / "first", folder / "two.yaml", tmp_path / "second")
    assert done.code == 0, done.err
    allowed = restored(folder / "two.yaml", 1, states_in(tmp_path / "first"), allow=True)
    assert keys_of(restored(folder / "two.yaml", 1, states_in(tmp_path / "second")), 12) == keys_of(allowed, 12)


def test_a_run_of_one_small_dataset_stays_one(energon: RunEnergon, folder: Path, tmp_path: Path) -> None:
    run = loaders(folder / "a", 1, lanes=48)
    keys_of(run, 7)
    save(tmp_path / "first", run)
    done = energon("checkpoint", "migrate", tmp_path / "first", folder / "two.yaml", tmp_path / "second")
    assert done.code == 1
    assert "the dataset has fewer than 4 samples a lane" in done.err


def test_an_edited_state_is_converted_if_the_option_accepts_it_and_has_a_checksum_again(
    energon: RunEnergon, folder: Path, tmp_path: Path
) -> None:
    run = loaders(folder / "one.yaml", 2, lanes=4)
    keys_of(run, 5)
    states = [{**loader.save_state_rank(), "worker_restarts": 7} for loader in run]
    path = tmp_path / "states.json"
    path.write_text(json.dumps(states))
    for command in (("migrate", path, folder / "two.yaml"), ("redist", path)):
        more = ("--new-world-size", "4") if command[0] == "redist" else ()
        refused = energon("checkpoint", *command, tmp_path / command[0], *more)
        assert refused.code == 1
        assert "this state is damaged or was edited" in refused.err
        assert "--allow-edited-state" in refused.err
        done = energon("checkpoint", *command, tmp_path / command[0], "--allow-edited-state", *more)
        assert done.code == 0, done.err
        written = json.loads((tmp_path / command[0] / "states.json").read_text())
        assert [RunState.from_plain(state).worker_restarts for state in written] == [7] * len(written)
