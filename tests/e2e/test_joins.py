"""Load joined datasets, from files on disk to micro-batches."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import numpy as np
import pytest

from loader import DefaultTaskEncoder, Sample, TextSample, WorkerConfig, get_loader, get_train_dataset, get_val_dataset
from loader.compat.dataset_from_config import get_dataset_from_config
from loader.errors import ConfigError, TrustError
from loader.metadataset.joins.prepare_metadataset import prepare_metadataset
from loader.metadataset.leaf_samples import LeafCounter
from loader.metadataset.plans.plan_leaves import plan_leaves
from tests.elastic_runs import Pipeline, Spread, check_every_save
from tests.unit.metadataset.joined_data import JoinedData, filling, join_of

MODULE = "joiners_of_the_user"


@dataclass(kw_only=True)
class Pair(Sample):
    """A text and its translation."""

    text: str
    other: str | None

    @classmethod
    def from_joined(cls, text: TextSample, other: TextSample | None) -> Self:
        return cls.derive_from(text, text=text.text, other=other and other.text)


def pair(text: TextSample, other: TextSample | None) -> Pair:
    sample = Pair.derive_from(text, text=text.text, other=f"{other and other.text}, by a function")
    if other is not None:
        sample.__sources__ = (text.__sources__ or ()) + (other.__sources__ or ())
    return sample


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JoinedData:
    """Write ``p`` with 40 keys, and ``q`` with all keys but those that end in 7, in other shards and reverse order."""
    module = ModuleType(MODULE)
    module.Pair, module.pair = Pair, pair  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, module)
    data = JoinedData(tmp_path)
    keys = [f"{number:02d}" for number in range(40)]
    data.add_dataset("p", {"p0": keys[:13], "p1": keys[13:14], "p2": keys[14:]})
    others = [key for key in reversed(keys) if key[-1] != "7"]
    data.add_dataset("q", {"q0": others[:20], "q1": others[20:]})
    return data


BY_CLASS = {"__module__": MODULE, "__class__": "Pair"}
BY_FUNCTION = {"__module__": MODULE, "__function__": "pair"}
WHOLE = [f"{number:02d}" for number in range(40)]


def config(rank: int = 0, world_size: int = 1, num_workers: int = 0) -> WorkerConfig:
    return WorkerConfig(rank=rank, world_size=world_size, num_workers=num_workers)


def prepared(data: JoinedData, split: dict[str, Any]) -> Path:
    path = data.write("meta.yaml", {"train": split, "val": {**split, "split_part": "train"}})
    prepare_metadataset(path)
    return path


def samples(path: Path, **options: Any) -> list[Any]:
    dataset = get_val_dataset(path, worker_config=config(**options), batch_size=7)
    found: list[Any] = []
    for batch in get_loader(dataset):
        assert type(batch).__name__ == "Pair"
        found += zip(batch.__key__, batch.text, batch.other, strict=True)
    return found


@pytest.mark.parametrize("joiner", [BY_CLASS, BY_FUNCTION], ids=["class", "function"])
@pytest.mark.parametrize("form", ["list", "mapping"])
def test_a_joiner_is_given_the_samples_of_a_row(data: JoinedData, joiner: dict[str, str], form: str) -> None:
    join = join_of("p", filling("q"), joiner=joiner)
    if form == "mapping":
        join["join"] = dict(zip(("text", "other"), join["join"], strict=True))
    by = "" if joiner is BY_CLASS else ", by a function"
    none = None if joiner is BY_CLASS else "None, by a function"
    shards = {key: "p0" if key < "13" else "p1" if key == "13" else "p2" for key in WHOLE}
    assert samples(prepared(data, join)) == [
        (f"{shards[key]}.tar/{key}", f"p/{key}", none if key[-1] == "7" else f"q/{key}{by}") for key in WHOLE
    ]


@pytest.mark.filterwarnings("ignore:split_part='train' has no effect:UserWarning")
def test_the_split_part_that_a_member_names_in_its_dataset_file_is_joined_counted_and_loaded(data: JoinedData) -> None:
    for name, shards in (("p", ["p0", "p2"]), ("q", ["q0", "q1"])):
        data.set_split(name, {"train": shards[:1], "later": shards[1:]})
        file = data.folder / name / ".nv-meta/dataset.yaml"
        file.write_text(f"{file.read_text()}split_part: later\n")
    join = join_of("p", {"path": "q", "nonmatch": "skip"}, joiner=BY_CLASS)
    assert [key for key, *_ in samples(prepared(data, join))] == [f"p2.tar/{key}" for key in ("14", "15", "16")]
    plain = data.write("plain.yaml", {"train": {"path": "p", "split_part": "train"}})
    [leaf] = plan_leaves(str(plain), split_part="train", training=True)
    assert LeafCounter().count(leaf) == 26
    dataset = get_val_dataset(plain, split_part="train", worker_config=config(), batch_size=1)
    assert [batch.text for batch in get_loader(dataset)] == [[f"p/{key}"] for key in WHOLE[14:]]
    assert len(get_dataset_from_config(data.folder / "p", split_part="train", worker_config=config())) == 26


def test_a_subset_chooses_rows(data: JoinedData) -> None:
    join = {**join_of("p", {"path": "q", "nonmatch": "skip"}, joiner=BY_CLASS), "subset": {"range": ["50%", "100%"]}}
    rows = [key for key in WHOLE if key[-1] != "7"]
    assert [text for _, text, _ in samples(prepared(data, join))] == [f"p/{key}" for key in rows[18:]]
    join["subset"] = {"range": [3, 5]}
    assert [text for _, text, _ in samples(prepared(data, join))] == ["p/03", "p/04"]


def test_a_joiner_knows_where_all_of_a_row_comes_from(data: JoinedData) -> None:
    path = prepared(data, join_of("p", filling("q"), joiner=BY_FUNCTION))
    dataset = get_train_dataset(
        path,
        worker_config=config(),
        batch_size=None,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        repeat=False,
    )
    found = {sample.text: [source.shard_name for source in sample.__sources__] for sample in get_loader(dataset)}
    assert len(found) == 40
    assert (found["p/00"], found["p/39"], found["p/07"]) == (["p0.tar", "q1.tar"], ["p2.tar", "q0.tar"], ["p0.tar"])


def train(path: Path, worker_config: WorkerConfig) -> Any:
    return get_train_dataset(
        path, worker_config=worker_config, batch_size=3, shuffle_buffer_size=10, max_samples_per_sequence=5
    )


def test_training_goes_on_exactly_on_any_number_of_ranks(data: JoinedData) -> None:
    path = prepared(data, join_of("p", filling("q"), joiner=BY_CLASS))
    pipeline = Pipeline(build=partial(train, path), batches=20)
    delivered = check_every_save(pipeline, Spread(2), every=3)
    assert any(b"q/" in batch for batch in delivered.values())


def epoch_of(path: Path, **options: Any) -> Any:
    """Open one epoch of a join, which worker processes make."""
    return get_train_dataset(
        path,
        worker_config=config(num_workers=2),
        batch_size=4,
        shuffle_buffer_size=10,
        max_samples_per_sequence=5,
        repeat=False,
        **options,
    )


def test_a_training_epoch_has_every_row_once_in_worker_processes(data: JoinedData) -> None:
    path = prepared(data, join_of("p", filling("q"), joiner=BY_CLASS))
    dataset = epoch_of(path)
    pairs = [both for batch in get_loader(dataset) for both in zip(batch.text, batch.other, strict=True)]
    assert sorted(text for text, _ in pairs) == [f"p/{key}" for key in WHOLE]
    assert all(other == (None if text[-1] == "7" else text.replace("p", "q")) for text, other in pairs)


class Crashing(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Encoder that ends its process at one row, whose samples come from both datasets."""

    def encode_sample(self, sample: Pair) -> Pair:
        if sample.text == "p/03":
            os.kill(os.getpid(), signal.SIGSEGV)
        return sample


def test_a_row_that_kills_its_workers_is_passed_over(data: JoinedData, tmp_path: Path) -> None:
    path = prepared(data, join_of("p", filling("q"), joiner=BY_CLASS))
    report = tmp_path / "quarantine.jsonl"
    for restarts in (2, 0):  # a later run passes over it from the start
        dataset = epoch_of(path, task_encoder=Crashing())
        loader = get_loader(dataset, quarantine=report, max_worker_restarts=restarts)
        found = [text for batch in loader for text in batch.text]
        assert sorted(found) == [f"p/{key}" for key in WHOLE if key != "03"]
    (line,) = report.read_text().splitlines()
    assert json.loads(line)["key"] == "p0.tar/03"


def test_a_join_that_is_not_prepared_or_stale_is_not_loaded(data: JoinedData) -> None:
    path = data.write("meta.yaml", {"train": join_of("p", filling("q"), joiner=BY_CLASS)})
    with pytest.raises(ConfigError, match=r"not prepared(.|\n)*run: energon prepare"):
        train(path, config())
    prepare_metadataset(path)
    train(path, config())
    data.prepare("q")
    with pytest.raises(ConfigError, match=r"stale: member .*q was prepared again(.|\n)*run: energon prepare"):
        train(path, config())


@pytest.mark.parametrize(("column", "number"), [(0, 40), (1, 1 << 40), (0, -1)])
def test_rows_that_name_samples_that_are_not_there_are_an_error(data: JoinedData, column: int, number: int) -> None:
    path = prepared(data, join_of("p", filling("q"), joiner=BY_CLASS))
    for rows in (data.folder / "meta.yaml.joins").glob("*.npy"):
        numbers = np.load(rows)
        numbers[3, column] = number
        np.save(rows, numbers)
    with pytest.raises(ConfigError, match=r"rows of this join are damaged(.|\n)*run: energon prepare"):
        samples(path)


def test_a_joiner_that_would_have_to_be_imported_needs_trust(data: JoinedData) -> None:
    joiner = {"__module__": "not_imported_yet", "__class__": "Pair"}
    path = prepared(data, join_of("p", filling("q"), joiner=joiner))
    with pytest.raises(TrustError, match="the joiner of this join asks to import not_imported_yet for its class Pair"):
        train(path, config())
