"""``energon checkpoint migrate`` of runs whose weights are shares of volumes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from loader import TextSample, WorkerConfig, get_savable_loader, get_train_dataset, sample_size_metric
from loader.dataset.opening import folder_at
from loader.format.columns.column_files import write_column
from tests.cli.run_energon import RunEnergon
from tests.cli.test_checkpoint_migrate import Shout, states_in
from tests.e2e.test_edited_mixes import Packing, number_in
from tests.e2e.text_dataset import write_texts
from tests.representative import every_value_once


class Plain(Shout):
    """Encoder without metrics, so that columns are counted."""


class Sized(Shout):
    @sample_size_metric
    def words(self, sample: TextSample) -> int:
        return 1 + int(sample.text.split()[-1]) % 7

    @sample_size_metric
    def letters(self, sample: TextSample) -> int:
        return len(sample.text)


class SizedPacking(Packing):
    @sample_size_metric
    def words(self, sample: TextSample) -> int:
        return 1 + number_in(sample) % 7


ENCODERS = {"plain": Plain, "sized": Sized, "packing": SizedPacking}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write three datasets with a column, and mixes of them."""
    folder = tmp_path_factory.mktemp("migrate_volumes")
    for first, name in enumerate("abc"):
        path = write_texts(folder / name, train=(41, 13, 30), val=(17, 20), first=1000 * first)
        opened = folder_at(str(path))
        write_column(opened.storage, opened.index, "tokens", 1 + np.arange(len(opened.index)) % 13)
    mixes: dict[str, list[dict[str, Any]]] = {
        "one": [{"path": "a", "weight": 2}, {"path": "b", "split_part": "val"}],
        "two": [{"path": "c"}, {"path": "a"}, {"path": "b"}],
        "three": [{"path": "b"}, {"path": "a", "weight": 3}],
        "scheduled": [{"path": "b", "weight": {0: 0, 12: 2}}, {"path": "a"}],
    }
    for unit in (None, "tokens", "words"):
        for name, entries in mixes.items():
            split = {"blend": entries} | ({} if unit is None else {"blend_weight_unit": unit})
            document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": split}}
            (folder / f"{name}_{unit or 'samples'}.yaml").write_text(yaml.safe_dump(document))
    return folder


def loaders(mix: Path, ranks: int, encoder: str, *, lanes: int | None = None) -> list[Any]:
    return [
        get_savable_loader(
            get_train_dataset(
                mix,
                batch_size=2,
                shuffle_buffer_size=20,
                max_samples_per_sequence=5,
                task_encoder=ENCODERS[encoder](),
                worker_config=WorkerConfig(rank=rank, world_size=ranks, num_workers=0, lanes=lanes),
                packing_buffer_size=7 if encoder == "packing" else None,
            )
        )
        for rank in range(ranks)
    ]


def texts_of(ranks: list[Any], steps: int) -> list[list[str]]:
    iterators = [iter(loader) for loader in ranks]
    return [next(iterator).text for _ in range(steps) for iterator in iterators]


def save(folder: Path, ranks: list[Any]) -> Path:
    folder.mkdir(parents=True)
    for rank, loader in enumerate(ranks):
        torch.save({"loader": loader.save_state_rank()}, folder / f"rank_{rank}.pt")
    return folder


def restored(mix: Path, ranks: int, states: list[Any], encoder: str, *, allow: bool = False) -> list[Any]:
    found = loaders(mix, ranks, encoder)
    for loader in found:
        loader.restore_state_global(states, allow_mix_change=allow)
    return found


CASES = {
    "a column": ("plain", "tokens"),
    "a metric": ("sized", "words"),
    "a metric, packing": ("packing", "words"),
}


@pytest.mark.parametrize(("case", "last"), every_value_once(CASES, ["three", "scheduled"]))
def test_a_run_that_is_migrated_twice_is_the_one_that_the_restore_edits(
    energon: RunEnergon, folder: Path, tmp_path: Path, case: str, last: str
) -> None:
    encoder, unit = CASES[case]
    mixes = [folder / f"{name}_{unit}.yaml" for name in ("one", "two", last)]
    run = loaders(mixes[0], 2, encoder, lanes=4)
    texts_of(run, 9)
    first = save(tmp_path / "first", run)
    migrate = partial(energon, "checkpoint", "migrate")
    done = migrate(first, mixes[1], tmp_path / "second")
    assert done.code == 0, done.err
    assert "/a, train: continues at " in done.out
    assert "/b, train: changed: split part val → train (starts over), weight 0.333" in done.out
    assert "/c, train: new, weight 0.333" in done.out

    allowed = restored(mixes[1], 1, states_in(first), encoder, allow=True)
    migrated = restored(mixes[1], 1, states_in(tmp_path / "second"), encoder)
    assert texts_of(migrated, 20) == texts_of(allowed, 20)

    third = save(tmp_path / "third", migrated)
    done = migrate(third, mixes[2], tmp_path / "fourth")
    assert done.code == 0, done.err
    for ranks in (4, 2):
        once_more = restored(mixes[2], ranks, [allowed[0].save_state_rank()], encoder, allow=True)
        expected = texts_of(once_more, 40 // ranks)
        assert texts_of(restored(mixes[2], ranks, states_in(tmp_path / "fourth"), encoder), 40 // ranks) == expected
    assert energon("checkpoint", "info", tmp_path / "fourth").out.count("edited ") == 2


@pytest.mark.parametrize(("first", "second"), [("words", "samples"), ("samples", "tokens"), ("samples", "words")])
def test_a_mix_with_another_unit_is_refused(
    energon: RunEnergon, folder: Path, tmp_path: Path, first: str, second: str
) -> None:
    run = loaders(folder / f"one_{first}.yaml", 1, "packing")
    texts_of(run, 5)
    saved = save(tmp_path / "first", run)
    done = energon("checkpoint", "migrate", saved, folder / f"two_{second}.yaml", tmp_path / "second")
    assert done.code == 1
    assert "the unit of the weights has changed since this state was saved" in done.err
    assert f"was a share of {first}, and is a share of {second}" in " ".join(done.err.split())
    assert "start a new run, without this state" in " ".join(done.err.split())
    assert not (tmp_path / "second").exists()


def test_a_nested_blend_of_a_new_metric_needs_the_hooks(energon: RunEnergon, folder: Path, tmp_path: Path) -> None:
    run = loaders(folder / "one_words.yaml", 1, "sized")
    texts_of(run, 5)
    saved = save(tmp_path / "first", run)
    document = yaml.safe_load((folder / "one_words.yaml").read_text())
    inner = {"blend": [{"path": "c"}, {"path": "c", "split_part": "val"}], "blend_weight_unit": "letters"}
    (folder / "inner.yaml").write_text(yaml.safe_dump({**document, "splits": {"train": inner}}))
    document["splits"]["train"]["blend"].append({"path": "inner.yaml"})
    (folder / "nested.yaml").write_text(yaml.safe_dump(document))
    migrate = partial(energon, "checkpoint", "migrate", saved, folder / "nested.yaml", tmp_path / "second")
    refused = migrate()
    assert refused.code == 1
    assert "the state does not tell where the unit 'letters' of the new mix is counted" in refused.err
    assert "pass --task-encoder module:Class" in refused.err
    done = migrate("--task-encoder", "tests.cli.test_migrate_volumes:Sized")
    assert done.code == 0, done.err
    assert "/c, train: new" in done.out
    allowed = restored(folder / "nested.yaml", 1, states_in(saved), "sized", allow=True)
    migrated = restored(folder / "nested.yaml", 1, states_in(tmp_path / "second"), "sized")
    assert texts_of(migrated, 20) == texts_of(allowed, 20)
