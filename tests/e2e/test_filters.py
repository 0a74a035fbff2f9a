"""Filters in training: which samples come, with subsets, splits, excludes and joins, and exact resume."""

from __future__ import annotations

import sys
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from loader import (
    ConfigError,
    EmptyDatasetError,
    FormatError,
    StateError,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    build_filter_index,
    get_dataset_from_config,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    prepare_recipe,
    random_access,
)
from loader.dataset.opening import folder_at
from loader.dataset.query import SampleQuery
from loader.format.dataset_ref import DatasetRef
from loader.inspect import ExcludeRequest, PreviewRequest, exclude as run_exclude, open_views
from loader.inspect.facts import path_facts
from loader.lint.report import LintPlan
from loader.metadataset.joins.files import open_join
from loader.metadataset.leaf_samples import LeafCounter
from loader.metadataset.lint import lint_metadataset
from loader.metadataset.plans.plan_leaves import plan_leaves
from tests.e2e.mixed_data import MixedData, write_mixed_data
from tests.e2e.text_dataset import exclude, write_texts
from tests.elastic_runs import Pipeline, Spread, check_every_save
from tests.unit.metadataset.joined_data import JoinedData

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)
EVERY_THIRD = range(0, 218, 3)
"""Of 157 training and 61 validation samples."""


class Plain(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that keeps samples unchanged."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MixedData:
    data = write_mixed_data(tmp_path_factory.mktemp("filters"))
    build_filter_index(data.texts, "third", list(EVERY_THIRD))
    build_filter_index(data.texts, "first", list(range(100)))
    build_filter_index(data.texts, "train_0", list(range(41)))
    build_filter_index(data.lines, "even", list(range(0, 23, 2)))
    return data


def numbers(samples: Any) -> list[int]:
    return [int(sample.text.split()[-1]) for sample in samples]


def train(path: Path, config: WorkerConfig = ONE, **options: Any) -> Any:
    defaults = {"batch_size": None, "shuffle_buffer_size": 20, "max_samples_per_sequence": 5, "task_encoder": Plain()}
    return get_train_dataset(path, worker_config=config, **defaults | options)


def read(path: Path, **options: Any) -> list[int]:
    return numbers(get_loader(train(path, repeat=False, **options)))


def validate(path: Path, **options: Any) -> list[int]:
    dataset = get_val_dataset(path, batch_size=None, worker_config=ONE, task_encoder=Plain(), **options)
    return numbers(get_loader(dataset))


def test_kept_samples_of_the_split_part_come_once_in_a_pass(data: MixedData) -> None:
    assert sorted(read(data.texts, filter_name="third")) == list(range(0, 157, 3))
    assert validate(data.texts, filter_name="third") == [n for n in EVERY_THIRD if n >= 157]
    path = data.write("third.yaml", {"train": {"path": "texts", "filter": "third"}})
    assert sorted(read(path)) == list(range(0, 157, 3))
    assert sorted(read(path, filter_name="first")) == list(range(100))  # the caller's wins


def test_a_subset_counts_the_kept_samples(data: MixedData) -> None:
    found = []
    for name, some in (("low", ["0%", "40%"]), ("high", ["40%", "100%"])):
        reference = {"path": "texts", "filter": "third", "subset": {"range": some}}
        path = data.write(f"{name}.yaml", {"train": reference})
        found.append(sorted(read(path)))
    assert found == [list(range(0, 63, 3))[:21], list(range(63, 157, 3))]
    path = data.write("few.yaml", {"train": {"path": "texts", "filter": "third", "subset": {"range": [50, "end"]}}})
    assert sorted(read(path)) == [150, 153, 156]


def test_excluded_samples_are_skipped_among_the_kept_ones(tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "texts")
    build_filter_index(folder, "third", list(EVERY_THIRD))
    exclude(folder, "train_0.tar/00003", "train_0.tar/00004", "train_4.tar")
    expected = [n for n in range(0, 157, 3) if n != 3 and not 112 <= n < 142]
    assert sorted(read(folder, filter_name="third")) == expected
    left = random_access(folder, filter_name="third")
    assert numbers(left) == expected
    assert numbers(random_access(folder, filter_name="third", excluded="replace"))[:3] == [0, 6, 6]
    path = tmp_path / "mix.yaml"
    path.write_text("{__class__: Recipe, splits: {train: {path: texts, filter: third, subset: {range: [1, end]}}}}")
    counter = LeafCounter()
    assert [counter.count(leaf) for leaf in plan_leaves(path, split_part="train", training=True)] == [len(expected) - 1]


def test_lines_of_a_file_are_filtered(data: MixedData) -> None:
    path = data.write("lines.yaml", {"train": {"path": "lines.jsonl", "filter": "even"}})
    dataset = train(path, repeat=False)
    assert sorted(crude["json"]["id"] for crude in get_loader(dataset)) == list(range(9000, 9023, 2))
    assert len(get_dataset_from_config(data.lines, filter_name="even")) == 12
    assert len(get_dataset_from_config(data.texts, filter_name="third", split_part="val")) == 20


def test_a_filtered_blend_resumes_exactly_on_other_ranks(data: MixedData) -> None:
    path = data.write(
        "blend.yaml",
        {
            "train": {
                "blend": [
                    {"weight": 2, "path": "texts", "filter": "third", "subset": {"range": ["10%", "90%"]}},
                    {"weight": 1, "path": "texts", "filter": "first"},
                    {"weight": 1, "path": "more"},
                ]
            }
        },
    )
    pipeline = Pipeline(build=partial(batches, path), batches=24)
    delivered = check_every_save(pipeline, Spread(2), [Spread(1), Spread(3), Spread(4, 1)], every=5)
    assert len(delivered) == 24


def test_a_filter_of_an_exclusion_resumes_exactly_on_fewer_ranks(data: MixedData) -> None:
    keys = [folder_at(data.texts).index.full_key(number) for number in range(0, 218, 4)]
    run_exclude(ExcludeRequest(ref=DatasetRef(str(data.texts)), query=SampleQuery(keys=keys), filter="kept"))
    path = data.write("kept.yaml", {"train": {"path": "texts", "filter": "kept"}})
    pipeline = Pipeline(build=partial(batches, path), batches=12)
    delivered = check_every_save(pipeline, Spread(2, 2), [Spread(1)], every=6)
    assert len(delivered) == 12


def batches(path: Path, config: WorkerConfig) -> Any:
    return get_train_dataset(
        path, worker_config=config, batch_size=3, shuffle_buffer_size=20, max_samples_per_sequence=5
    )


def test_a_state_is_of_one_filter(data: MixedData, tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "texts")
    build_filter_index(folder, "kept", list(EVERY_THIRD))
    loader = get_savable_loader(train(folder, filter_name="kept"))
    list(islice(loader, 5))
    state = loader.save_state_rank()
    resumed = get_savable_loader(train(folder, filter_name="kept"))
    resumed.restore_state_rank(state)
    changed = [1, *EVERY_THIRD[1:]]  # as many, in the same shards
    build_filter_index(folder, "kept", changed)
    with pytest.raises(StateError, match=r"checksum of the selected samples \d+ → \d+"):
        get_savable_loader(train(folder, filter_name="kept")).restore_state_rank(state)
    with pytest.raises(StateError, match="filter 'kept' → none"):
        get_savable_loader(train(folder)).restore_state_rank(state)


def test_missing_and_empty_filters_are_refused_when_the_dataset_is_built(data: MixedData) -> None:
    with pytest.raises(ConfigError, match=r"there is no filter 'thrid'; there are: first, (kept, )?third, train_0"):
        train(data.texts, filter_name="thrid")
    with pytest.raises(EmptyDatasetError, match="split part 'val' of this dataset has no samples that the filter"):
        validate(data.texts, filter_name="train_0")
    path = data.write("nested.yaml", {"train": {"path": "third.yaml", "filter": "third"}})
    with pytest.raises(ConfigError, match=r"splits\.train\.filter: a metadataset has none; set it at its datasets"):
        train(path)
    path = data.write("name.yaml", {"train": {"path": "texts", "filter": "../x"}})
    with pytest.raises(ConfigError, match=r"splits\.train\.filter: expected the name of a filter"):
        train(path)


def test_facts_and_lint_name_filters(data: MixedData, tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "texts")
    build_filter_index(folder, "third", list(EVERY_THIRD))
    assert path_facts(str(folder))["filters"] == [{"name": "third", "samples": 73, "fault": None}]
    path = tmp_path / "mix.yaml"
    path.write_text("{__class__: Recipe, splits: {train: {path: texts, filter: third}, val: {path: texts, filter: x}}}")
    facts = path_facts(str(path))
    leaves = [split["tree"]["children"][0] for split in facts["splits"]]
    assert [(leaf["filter"], leaf["samples"]) for leaf in leaves] == [("third", 53), ("x", None)]
    report = lint_metadataset(LintPlan(ref=DatasetRef(str(path)), level="headers"))
    found = [finding for finding in report.findings if finding.code == "E504"]
    assert len(found) == 1
    assert "there is no filter 'x'; there are: third" in found[0].message
    np.array([1], "<u8").tofile(folder / ".nv-meta/filter_third.idx")
    report = lint_metadataset(LintPlan(ref=DatasetRef(str(path)), level="headers"))
    assert "E206" in {finding.code for finding in report.findings}
    with pytest.raises(FormatError, match="expected 584 bytes"):
        train(path)


def test_previews_show_the_kept_samples(data: MixedData) -> None:
    path = data.write("preview.yaml", {"train": {"path": "texts", "filter": "third", "subset": {"range": [20, "end"]}}})
    assert open_views(PreviewRequest(ref=DatasetRef(str(path)))).total == 33
    assert "00063" in open_views(PreviewRequest(ref=DatasetRef(str(path)))).view(1).title
    _, view = open_views(PreviewRequest(ref=DatasetRef(str(path)), key="00066"))
    assert "00066" in view(0).title
    with pytest.raises(ConfigError):
        open_views(PreviewRequest(ref=DatasetRef(str(path)), key="00067"))
    path = data.write("lines.yaml", {"train": {"path": "lines.jsonl", "filter": "even"}})
    assert open_views(PreviewRequest(ref=DatasetRef(str(path)))).total == 12
    assert "lines.jsonl/4" in open_views(PreviewRequest(ref=DatasetRef(str(path)))).view(2).title


def test_lint_checks_the_filter_of_a_file(data: MixedData, tmp_path: Path) -> None:
    for name in ("lines.jsonl", "lines.jsonl.idx", "lines.jsonl.even.json"):
        (tmp_path / name).write_bytes((data.folder / name).read_bytes())
    np.array([0, 4, 2, *range(6, 23, 2)], "<u8").tofile(tmp_path / "lines.jsonl.even.idx")
    path = tmp_path / "mix.yaml"
    path.write_text("{__class__: Recipe, splits: {train: {path: lines.jsonl, filter: even}}}")
    report = lint_metadataset(LintPlan(ref=DatasetRef(str(path)), level="headers"))
    (found,) = [finding for finding in report.findings if finding.code == "E504"]
    assert "the filter 'even' is damaged or stale: its numbers do not ascend" in found.message


# ---------------------------------------------------------------------------------------------------------------- joins


def pair(text: TextSample, other: TextSample | None) -> TextSample:
    return TextSample.derive_from(text, text=f"{text.text} {other and other.text}")


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JoinedData:
    """Write ``p`` and ``q`` with the same 12 keys, in other shards; ``p`` keeps 0 to 8, ``q`` those that 3 divides."""
    module = ModuleType("joiners_of_filters")
    module.pair = pair  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    data = JoinedData(tmp_path)
    keys = [f"{number:02d}" for number in range(12)]
    data.add_dataset("p", {"p0": keys[:5], "p1": keys[5:]}, exclude=["p0.tar/00"])
    data.add_dataset("q", {"q0": keys[6:], "q1": keys[:6]})
    build_filter_index(tmp_path / "p", "low", list(range(9)))
    build_filter_index(tmp_path / "q", "third", [0, 3, 6, 9])  # keys 06, 09, 00, 03
    return data


def test_members_of_a_join_are_filtered(joined: JoinedData) -> None:
    joiner = {"__module__": "joiners_of_filters", "__function__": "pair"}
    members = [{"path": "p", "filter": "low"}, {"path": "q", "filter": "third", "nonmatch": "none"}]
    path = joined.write("meta.yaml", {"train": {"join": members, "joiner": joiner}})
    with pytest.raises(ConfigError, match="this join is not prepared"):
        train(path)
    (report,) = prepare_recipe(path)
    assert (report.rows, report.members[0].matched, report.members[0].unused) == (8, 2, 2)
    texts = sorted(sample.text for sample in get_loader(train(path, repeat=False)))
    assert texts == [f"p/{n:02d} {f'q/{n:02d}' if n in (3, 6) else None}" for n in range(1, 9)]
    build_filter_index(joined.folder / "q", "third", [0, 3, 6])
    with pytest.raises(ConfigError, match=r"rows of this join are stale: the filter of member .*/q has changed"):
        train(path)
    plain = joined.write("plain.yaml", {"train": {"join": [{"path": "p"}, {"path": "q"}], "joiner": joiner}})
    prepare_recipe(plain)
    (leaf,) = plan_leaves(plain, split_part="train", training=True)
    assert leaf.join is not None
    assert len(open_join(leaf.join)) == 11
