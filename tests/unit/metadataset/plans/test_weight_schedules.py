"""Weights that change during a run: what documents may say, and the shares that follow."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from loader.errors import ConfigError
from loader.metadataset.documents.leaf_plan import MAX_STRETCHES, EntrySchedule, LeafPlan, combine_starts, schedule_text
from loader.metadataset.plans.blend_tree import LeafGroup, UnitBlend, blend_tree
from tests.unit.metadataset.metadataset_files import MetadatasetFiles

AT = "splits.train.blend[1].weight"
NUMBER = "expected the number of a step or sample: a whole number from 0 on, of at most 12 digits"


def blend(*weights: Any) -> dict[str, Any]:
    return {"blend": [{"path": name, "weight": weight} for name, weight in zip("abcd", weights, strict=False)]}


def shares(leaves: tuple[LeafPlan, ...]) -> list[list[float]]:
    """Return the share of each leaf in each stretch."""
    return [[round(share, 6) for share in leaf.schedule.weights] if leaf.schedule else [] for leaf in leaves]


def test_weights_are_those_from_each_step_on(files: MetadatasetFiles) -> None:
    leaves = files.plan_train(blend({0: 3.0, 10: 1, 10_000: 0}, 1))
    assert [leaf.schedule.starts for leaf in leaves if leaf.schedule] == [(0, 10, 10_000)] * 2
    assert [leaf.schedule.unit for leaf in leaves if leaf.schedule] == ["steps"] * 2
    assert shares(leaves) == [[0.75, 0.5, 0.0], [0.25, 0.5, 1.0]]
    assert [leaf.weight for leaf in leaves] == [0.75, 0.25]


def test_texts_of_json_and_any_order_of_the_keys_are_the_same(files: MetadatasetFiles) -> None:
    expected = shares(files.plan_train(blend({0: 3, 9: 1, 10: 2}, 1)))
    assert shares(files.plan_train(blend({"10": 2, "0": 3, "9": 1}, 1))) == expected
    assert shares(files.plan_train(json.loads(json.dumps(blend({0: 3, 10: 2, 9: 1}, 1))))) == expected


def test_the_long_form_has_a_unit_and_linear_changes(files: MetadatasetFiles) -> None:
    leaves = files.plan_train(blend({"unit": "samples", "change": "linear", "at": {0: 0, 64: 2, 100: 2, 102: 1}}, 1))
    [schedule, _] = [leaf.schedule for leaf in leaves]
    assert schedule is not None
    assert schedule.unit == "samples"
    assert schedule.starts == (*range(0, 64, 2), 64, 100, 101, 102)
    weights = [*((part + 0.5) / 16 for part in range(32)), 2, 1.75, 1.25, 1]
    assert schedule.weights == pytest.approx([weight / (weight + 1) for weight in weights])


def test_defaults_of_the_long_form_are_those_of_the_short_one(files: MetadatasetFiles) -> None:
    short = files.plan_train(blend({0: 3, 9: 1}, 1))
    assert files.plan_train(blend({"at": {0: 3, 9: 1}}, 1)) == short
    assert files.plan_train(blend({"unit": "steps", "change": "steps", "at": {0: 3, 9: 1}}, 1)) == short


@pytest.mark.parametrize("weight", [{0: 2}, {"0": 2.0, 9: 2}, {"change": "linear", "at": {0: 2, 9: 2}}], ids=str)
def test_a_schedule_that_never_changes_is_a_weight(files: MetadatasetFiles, weight: Any) -> None:
    assert files.plan_train(blend(weight, 1)) == files.plan_train(blend(2, 1))


def test_nested_shares_are_products_in_the_stretches_of_all_levels(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": blend({0: 1, 20: 0}, 1)})
    document = {"blend": [{"path": "inner.yaml", "weight": {0: 1, 10: 3}}, {"path": "c", "weight": 1}]}
    leaves = files.plan_train(document)
    assert [leaf.schedule.starts for leaf in leaves if leaf.schedule] == [(0, 10, 20), (0, 10, 20), (0, 10)]
    assert shares(leaves) == [[0.25, 0.375, 0.0], [0.25, 0.375, 0.75], [0.5, 0.25]]


def test_a_schedule_of_an_inner_blend_leaves_others_constant(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": blend({0: 1, 20: 0}, 1)})
    leaves = files.plan_train({"blend": [{"path": "inner.yaml"}, {"path": "c", "weight": 3}]})
    assert shares(leaves) == [[0.125, 0.0], [0.125, 0.25], []]
    assert leaves[2].weight == 0.75


def test_a_first_version_may_have_schedules_and_validation_ignores_them(files: MetadatasetFiles) -> None:
    datasets = [{"path": "a", "weight": {0: 1, 5: 0}}, {"path": "b", "weight": 2}]
    files.write("mix.yaml", {"train": {"datasets": datasets}}, version="Metadataset")
    assert shares(files.plan()) == [[1 / 3, 0.0], [2 / 3, 1.0]] or shares(files.plan())[0][1] == 0.0
    files.write("mix.yaml", {"train": blend({0: 0, 5: 1}, 2)})
    assert [leaf.schedule for leaf in files.plan(training=False)] == [None, None]


def test_no_share_of_a_weight_above_0_is_0(files: MetadatasetFiles) -> None:
    leaves = files.plan_train(blend({0: 1e-300, 5: 1}, 1e300))
    assert all(share > 0 for leaf in leaves if leaf.schedule for share in leaf.schedule.weights)
    assert all(leaf.schedule for leaf in leaves)


@pytest.mark.parametrize(
    ("weight", "faults"),
    [
        ({}, [f"{AT}: expected 1 to 1,000 steps or samples with their weights, found 0"]),
        ({5: 1.0}, [f"{AT}: the first weight is that at 5; expected one at 0"]),
        ({0: 1, 5: -1}, [f"{AT}.5: expected a number of at least 0, found -1"]),
        ({0: True}, [f"{AT}.0: expected a number of at least 0, found True"]),
        ({0: math.nan, 5: 1}, [f"{AT}.0: expected a number of at least 0, found nan"]),
        ({0: 1, 5: math.inf}, [f"{AT}.5: expected a number of at least 0, found inf"]),
        ({0: 1, 5: None}, [f"{AT}.5: expected a number of at least 0, found nothing"]),
        ({0: 1, 5: {0: 1}}, [f"{AT}.5: expected a number of at least 0, found {{0: 1}}"]),
        ({0: 0}, [f"{AT}: every weight is 0; expected one above 0, or remove the entry"]),
        ({0: 1, -5: 1}, [f"{AT}.-5: {NUMBER}"]),
        ({0: 1, True: 1}, [f"{AT}.True: {NUMBER}"]),
        ({0: 1, 1.5: 1}, [f"{AT}.1.5: {NUMBER}"]),
        ({0: 1, "5 ": 1}, [f"{AT}.5 : {NUMBER}"]),
        ({0: 1, "²": 1}, [f"{AT}.²: {NUMBER}"]),
        ({0: 1, 10**12: 1}, [f"{AT}.1000000000000: {NUMBER}"]),
        ({0: 1, 5: 1, "05": 2}, [f"{AT}.05: 5 has two weights"]),
        ({"0": 1, "00": 2}, [f"{AT}.00: 0 has two weights"]),
        ({"at": {0: 1}, "unit": "epochs"}, [f"{AT}.unit: expected steps or samples, found 'epochs'"]),
        ({"at": {0: 1}, "change": ["linear"]}, [f"{AT}.change: expected steps or linear, found ['linear']"]),
        ({"unit": "steps"}, [f"{AT}.at: this is missing; expected a mapping of steps or samples to weights"]),
        ({"at": 5}, [f"{AT}.at: expected a mapping, found 5"]),
        ({"at": {1: 2}}, [f"{AT}.at: the first weight is that at 1; expected one at 0"]),
        ({"at": {0: 1}, 5: 2}, [f"{AT}.5: there is no such key; known are unit, change, at"]),
    ],
    ids=str,
)
def test_faults_have_their_places(files: MetadatasetFiles, weight: Any, faults: list[str]) -> None:
    assert files.faults_of_train(blend(1, weight)) == faults


@pytest.mark.parametrize("points", [1001, 20_000, 1_000_000])
@pytest.mark.sampled(3)
def test_too_many_points_are_one_fault(files: MetadatasetFiles, points: int) -> None:
    text = ", ".join(f'"{step}": -1' for step in range(points))
    head = '{"__class__": "MetadatasetV2", "splits": {"train": {"blend": [{"path": "a", "weight": {"at": {'
    (files.folder / "mix.yaml").write_text(f"{head}{text}}}}}}}]}}}}}}")
    with pytest.raises(ConfigError) as caught:
        files.plan()
    if points < 1_000_000:  # a document of that size is refused as a whole
        place = "splits.train.blend[0].weight.at"
        expected = f"{place}: expected 1 to 1,000 steps or samples with their weights, found {points:,}"
        assert [str(fault) for fault in caught.value.faults] == [expected]
    else:
        assert len(str(caught.value)) < 1000


def test_schedules_that_do_not_fit_each_other_are_faults_of_their_blend(files: MetadatasetFiles) -> None:
    at = "splits.train.blend"
    in_samples = {"unit": "samples", "at": {0: 1, 5: 2}}
    assert files.faults_of_train(blend({0: 1, 5: 2}, in_samples)) == [
        f"{at}: some weights change at steps and others at samples; use one unit for a tree of blends"
    ]
    assert files.faults_of_train(blend({0: 1, 5: 0}, {0: 0, 6: 1})) == [
        f"{at}: from step 5 on every weight is 0; expected one above 0"
    ]
    points = [{start: 1 + start % 2 for start in (0, *range(1 + row, 1800, 3))} for row in range(3)]
    [fault] = files.faults_of_train(blend(*points))
    assert fault.startswith(f"{at}: the weights change 1,799 times; expected at most {MAX_STRETCHES - 1} times, ")
    files.write("inner.yaml", {"train": blend({0: 1, 20: 0})})
    assert files.faults_of_train({"blend": [{"path": "inner.yaml"}, {"path": "c"}]}) == [
        "inner.yaml: splits.train.blend: from step 20 on every weight is 0; expected one above 0"
    ]
    # It has no share there.
    files.plan_train({"blend": [{"path": "inner.yaml", "weight": {0: 1, 20: 0}}, {"path": "c"}]})


def test_repetitions_have_no_schedules(files: MetadatasetFiles) -> None:
    repetitions = {"blend_epochized": [{"path": "a", "repetitions": {0: 1, 5: 2}}]}
    [fault] = files.faults_of_train(repetitions)
    assert fault.startswith("splits.train.blend_epochized[0].repetitions: expected a number > 0, found {")


def test_each_blend_below_a_unit_keeps_the_schedule_of_its_own_weights(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": blend({0: 1, 20: 0}, 1)})
    outer = {"blend": [{"path": "inner.yaml"}, {"path": "c", "weight": 3}], "blend_weight_unit": "tokens"}
    tree = blend_tree([leaf.blends for leaf in files.plan_train(outer)])
    assert isinstance(tree, UnitBlend)
    assert (tree.unit, tree.is_scheduled) == ("tokens", False)
    inner = tree.entries[0]
    assert isinstance(inner, UnitBlend)
    assert (inner.unit, inner.is_scheduled) == ("samples", True)
    assert [found.weights for found in tree.at(20).entries[:1] if isinstance(found, UnitBlend)] == [(0, 1)]
    assert [*inner.groups()][1] == LeafGroup(leaves=(1,), weights=(1.0,))


def test_texts_name_the_changes_alone() -> None:
    schedule = EntrySchedule(unit="samples", starts=(0, 5, 1000), weights=(0.5, 0.5, 1 / 3))
    assert str(schedule) == "0.5, 0.333 from sample 1,000"
    long = schedule_text("steps", range(20), [float(step) for step in range(20)])
    assert long == "0, 1 from step 1, 2 from step 2, 3 from step 3, …, 19 from step 19"
    assert combine_starts([schedule, EntrySchedule(unit="samples", starts=(0, 7), weights=(1, 2))]) == (0, 5, 7, 1000)
