"""DecodeDataset: fields, keys and labels of samples, and failures."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from loader.errors import ConfigError, SampleError, TrustError
from loader.pipeline.contract.stage import SKIPPED
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.failures.policy import FailurePolicy
from loader.pipeline.reading.dataset_source import DatasetSource
from loader.pipeline.reading.decode import DecodeDataset
from loader.pipeline.reading.order_plan import SequentialPlan, ShuffledPlan
from loader.pipeline.reading.read import ReadDataset
from loader.samples.decoding.decoder import SampleDecoder
from loader.samples.types import CrudeSample, TextSample
from loader.testing.stage import check_resumes, lane, steps, values
from tests.unit.pipeline.tar_dataset import leave_out, open_source, texts, write_dataset

TEXT = "sample_type: {__module__: megatron.energon, __class__: TextSample}\n"
FIELDS = TEXT + "field_map: {text: 'json[x]'}\nsubflavors: {source: web, quality: 1}\n"
LOADED = TEXT + "sample_loader: sample_loader.py:load\n"


def built(*sources: DatasetSource, plan: ShuffledPlan | None = None) -> DecodeDataset:
    alone = WorkerConfig(rank=0, world_size=1, num_workers=0)
    return DecodeDataset(ReadDataset(sources, plan or SequentialPlan(), worker_config=alone))


def source(folder: Path, **options: Any) -> DatasetSource:
    return open_source(folder, **options)


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build") / "typed"
    return write_dataset(folder, {"a.tar": texts(0, 3), "b.tar": texts(7, 2)}, config=FIELDS)


@pytest.fixture(scope="module")
def crude(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("build") / "crude", {"a.tar": texts(5, 2)})


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Ten samples, three of them with invalid JSON."""
    samples = {f"{n}": {"json": b"{" if n in (2, 3, 7) else b'{"x": "%d"}' % n, "txt": b"t"} for n in range(10)}
    return write_dataset(tmp_path / "broken", {"a.tar": samples}, config=FIELDS)


def test_samples_have_type_key_sources_labels_and_restore_key(typed: Path, crude: Path) -> None:
    of_lane = lane(0, 2)
    of_lane.context.batch_index = 17
    given = built(source(typed, subflavors={"quality": 2}), source(crude)).open(of_lane, {})
    first, item_id = given.next()
    assert item_id == 0
    assert type(first) is TextSample
    assert (first.text, first.__key__) == ("", "a.tar/000")
    assert first.__restore_key__ == ("1 decode", 0, 17, 0)
    assert first.__subflavors__ == {"source": "web", "quality": 2}
    assert first.__sources__ is not None
    assert [tuple(source) for source in first.__sources__] == [(str(typed), 0, "a.tar", ("000.json",))]
    last = built(source(typed), source(crude)).open(lane(1, 2), {}).load(3)
    assert type(last) is CrudeSample
    assert {name: value for name, value in last.items() if not name.startswith("__")} == {
        "txt": "text 6",
        "json": {"n": 6, "x": "x" * 6},
    }
    assert (last["__key__"], last["__restore_key__"]) == ("a.tar/006", ("1 decode", 1, None, 3))
    assert first.__sources__ is not None
    assert [tuple(source) for source in last["__sources__"]] == [(str(crude), 1, "a.tar", ("006.txt", "006.json"))]


def test_without_a_decoder_parts_stay_bytes(crude: Path) -> None:
    (first, _) = values(built(source(crude, decoder=None)))
    assert (first["txt"], first["json"]) == (b"text 5", b'{"n": 5, "x": "xxxxx"}')


def test_a_restored_lane_continues_where_it_stopped(typed: Path, crude: Path, tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 9), "b.tar": texts(0, 9)}, config=FIELDS)
    leave_out(folder, "a.tar/003")
    plan = ShuffledPlan(slice_lengths=(2, 2, 2), shuffle_buffer=9, epochs_together=(1, 1, 1), weights=(1.0, 1.0, 1.0))
    check_resumes(built(source(typed), source(crude), source(folder), plan=plan), count=2, most=40)


def test_excluded_samples_stay_skipped(crude: Path, tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "x", {"a.tar": texts(0, 4)}, exclude=["a.tar/002"])
    given = [step.value for step in steps(built(source(folder, excluded_later=True)), lane(), most=9)]
    assert [value is SKIPPED for value in given] == [False, False, True, False]
    assert built(source(folder, excluded_later=True)).open(lane(), {}).load(2) is SKIPPED


# ------------------------------------------------------------------------------------------------------------- failures


def test_an_undecodable_sample_is_skipped_and_passed_to_handlers(broken: Path) -> None:
    failures = []
    given = steps(built(source(broken)), lane(handler=lambda *failure: failures.append(failure)), most=20)
    assert [step.item_id for step in given if step.value is SKIPPED] == [2, 3, 7]
    assert [step.value.text for step in given if step.value is not SKIPPED] == list("0145689")
    error, sample, _ = failures[0]
    assert isinstance(error, SampleError)
    assert (error.key, error.part) == ("a.tar/2", "json")
    assert (sample["__key__"], sample["json"]) == ("a.tar/2", b"{")
    assert str(sample["__sources__"][0]) == f"{broken}/a.tar: 2.json"


def test_code_of_the_dataset_that_fails_is_reported_with_the_sample(
    broken: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (broken / ".nv-meta/dataset.yaml").write_text(LOADED)
    (broken / ".nv-meta/sample_loader.py").write_text("def load(parts): return {'text': 1 / 0}\n")
    with caplog.at_level(logging.WARNING):
        given = steps(built(source(broken, decoder=None, trust_code=True)), lane(), most=3)
    assert [step.value for step in given] == [SKIPPED] * 3
    assert caplog.records[0].message.startswith(
        "skipped sample 'a.tar/0': decode raised ZeroDivisionError: division by zero · at "
    )
    assert f" · in {broken}/a.tar: 0.json, 0.txt · lane 0" in caplog.records[0].message


def test_failures_in_a_row_are_counted_and_successes_between_them_end_the_row(broken: Path) -> None:
    def policy(tolerance: int) -> FailurePolicy:
        return FailurePolicy(lambda *failure: None, lane=0, tolerance=tolerance)

    patient, strict = lane(), lane()
    patient.failures, strict.failures = policy(3), policy(2)
    assert len(steps(built(source(broken)), patient, most=20)) == 10
    with pytest.raises(SampleError, match="decode failed 2 times in a row") as caught:
        steps(built(source(broken)), strict, most=20)
    assert caught.value.key == "a.tar/3"


def test_failures_of_all_samples_stop_the_run_at_once(broken: Path, tmp_path: Path) -> None:
    failures = []
    (broken / ".nv-meta/dataset.yaml").write_text(LOADED)
    for code, kind in (("raise ConfigError('not so')", ConfigError), ("return undefined", NameError)):
        text = f"from loader.errors import ConfigError\ndef load(parts): {code}\n"
        (broken / ".nv-meta/sample_loader.py").write_text(text)
        running = built(source(broken, decoder=None, trust_code=True)).open(
            lane(handler=lambda *f: failures.append(f)), {}
        )
        with pytest.raises(kind):
            running.next()
    folder = write_dataset(tmp_path / "x", {"a.tar": {"0": {"pkl": b"\x80\x04N."}}})
    with pytest.raises(TrustError):
        built(source(folder)).open(lane(handler=lambda *f: failures.append(f)), {}).next()
    assert failures == []


def test_a_rebuilt_sample_that_fails_raises(broken: Path) -> None:
    running = built(source(broken)).open(lane(), {})
    with pytest.raises(SampleError, match=r"'a\.tar/2'"):
        running.load(2)


def test_it_keeps_positions_and_prints_its_decoder(typed: Path, crude: Path) -> None:
    dataset = built(source(typed, decoder=SampleDecoder(image_decode="pil")))
    assert (dataset.items, len(dataset)) == (5, 5)
    assert "image_decode='pil'" in str(dataset).splitlines()[0]
    assert str(built(source(typed), source(crude, decoder=None))).splitlines()[0] == "decode()"
    assert str(built(source(crude, decoder=None))).splitlines()[0] == "decode(decoder=None)"
