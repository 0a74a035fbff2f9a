"""``energon info`` of a metadataset: a tree for each split, with the share of each leaf."""

from __future__ import annotations

import datetime as dt
import io
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from rich.console import Console

from loader.inspect.report import show_metadataset
from loader.metadataset.joins.prepare_join import prepare_join
from loader.metadataset.plans.plan_leaves import plan_leaves
from tests.cli.make_mix import JOINER, copy_datasets, write_datasets, write_mix
from tests.cli.run_energon import RunEnergon
from tests.source_tree import ROOT

KEYS = {"path", "type", "faults", "splits"}
SPLIT_KEYS = {"name", "leaves", "samples", "epoch", "mixed_by", "faults", "tree"}
NODE_KEYS = {
    "kind", "place", "path", "split_part", "share", "schedule", "repetitions", "expected_repetitions", "samples",
    "split_config", "dataset_config", "meta_folder", "filter", "unit", "subset", "subflavors", "aux",
    "aux_meta_folders", "join", "fault", "children",
}  # fmt: skip
MEMBER_KEYS = {
    "name", "path", "split_part", "split_config", "dataset_config", "meta_folder", "nonmatch", "subflavors", "aux",
    "aux_meta_folders", "fault", "filter",
}  # fmt: skip


Facts: TypeAlias = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_datasets(tmp_path_factory.mktemp("datasets"))


@pytest.fixture
def own_datasets(datasets: Path, tmp_path: Path) -> Path:
    """The datasets, for a test that changes them."""
    return copy_datasets(datasets, tmp_path)


@pytest.fixture
def facts(datasets: Path, energon: RunEnergon) -> Facts:
    """Describe a metadataset next to the datasets, and return the leaves of its split train."""

    def run(**splits: Any) -> list[dict[str, Any]]:
        document = energon("info", write_mix(datasets, **splits), "--json").json
        return list(leaves(document["splits"][0]["tree"]))

    return run


def leaves(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if not node["children"]:
        yield node
    for child in node["children"]:
        yield from leaves(child)


def test_a_tree_shows_the_share_of_each_leaf(datasets: Path, energon: RunEnergon) -> None:
    write_mix(
        datasets,
        "inner.yaml",
        train=[{"path": "b", "subflavors": {"kind": "art"}}, {"path": "texts.jsonl", "weight": 3}],
    )
    blend = [
        {"path": "a", "weight": 6, "subflavors": {"kind": "photo"}, "aux": {"files": "filesystem://files"}},
        {"path": "inner.yaml", "weight": 2, "subset": {"range": ["0%", "50%"]}},
    ]
    done = energon("info", write_mix(datasets, train=blend, val={"path": "a"}))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{datasets}/mix.yaml",
        "metadataset with 2 splits",
        "",
        "train: 10 samples in 3 datasets, mixed by weight",
        "                                share  samples  per epoch",
        "blend                                       10",
        "├─ a (train)                   75.0 %        6      1.25×  kind: photo; aux files",
        "└─ inner.yaml (train) → blend  25.0 %        4",
        "   ├─ b (train)                 6.2 %        3     0.208×  kind: art; subset [0%, 50%]",
        "   └─ texts.jsonl (train)      18.8 %        1      1.88×  subset [0%, 50%]",
        "",
        "val: 3 samples",
        "         share  samples  per epoch",
        "a (val)               3         1×",
    ]


def test_the_json_has_its_keys(datasets: Path, energon: RunEnergon) -> None:
    mix = write_mix(
        datasets, train=[{"path": "a"}, {"join": {"x": {"path": "a"}, "y": {"path": "b"}}, "joiner": JOINER}]
    )
    document = energon("info", mix, "--json").json
    assert (set(document), document["type"]) == (KEYS, "metadataset")
    [split] = document["splits"]
    assert set(split) == SPLIT_KEYS
    for node in (split["tree"], *split["tree"]["children"], *leaves(split["tree"])):
        assert set(node) == NODE_KEYS
    [_, join] = leaves(split["tree"])
    assert set(join["join"]) == {"joiner", "members"}
    assert [(set(member), member["name"]) for member in join["join"]["members"]] == [
        (MEMBER_KEYS, "x"), (MEMBER_KEYS, "y"),
    ]  # fmt: skip


def test_shares_and_repetitions_of_weights(facts: Facts) -> None:
    one, other = facts(train=[{"path": "a", "weight": 3}, {"path": "texts.jsonl"}])
    assert (one["share"], one["samples"], one["expected_repetitions"]) == (0.75, 6, 1.0)
    assert (other["share"], other["samples"], other["expected_repetitions"]) == (0.25, 2, 1.0)


def test_samples_of_a_blend_with_a_unit_have_no_known_repetitions(datasets: Path, energon: RunEnergon) -> None:
    by_tokens = {"blend_weight_unit": "tokens", "blend": [{"path": "a", "weight": 3}, {"path": "b"}]}
    write_mix(datasets, "tokens.yaml", train=by_tokens)
    mix = write_mix(datasets, train=[{"path": "tokens.yaml"}, {"path": "texts.jsonl"}])
    [split] = energon("info", mix, "--json").json["splits"]
    assert [leaf["expected_repetitions"] for leaf in leaves(split["tree"])] == [
        None,
        None,
        pytest.approx(split["samples"] * 0.5 / 2),
    ]


def test_shares_that_change_are_shown_with_their_steps(datasets: Path, energon: RunEnergon) -> None:
    mix = write_mix(datasets, train=[{"path": "a", "weight": {0: 3, 10: 0}}, {"path": "b"}])
    done = energon("info", mix)
    assert "├─ a (train)  75.0 %        6             share 0.75, 0 from step 10" in done.out.splitlines()
    tree = energon("info", mix, "--json").json["splits"][0]["tree"]
    [a, b] = leaves(tree)
    assert a["schedule"] == {
        "unit": "steps", "starts": [0, 10], "shares": [0.75, 0.0], "text": "0.75, 0 from step 10",
    }  # fmt: skip
    assert (b["share"], b["schedule"]["shares"], b["expected_repetitions"]) == (0.25, [0.25, 1.0], None)
    assert tree["schedule"] is None
    assert energon("preview", mix, "--json", "-n", "3").code == 0


def test_shares_and_repetitions_of_a_pass(datasets: Path, energon: RunEnergon) -> None:
    blend = {"blend_epochized": [{"path": "a", "repetitions": 2}, {"path": "texts.jsonl", "repetitions": 0.5}]}
    [split] = energon("info", write_mix(datasets, train=blend), "--json").json["splits"]
    assert (split["samples"], split["epoch"], split["mixed_by"]) == (8, 13, "repetitions")
    assert [(leaf["share"], leaf["expected_repetitions"]) for leaf in leaves(split["tree"])] == [
        (12 / 13, 2),
        (1 / 13, 0.5),
    ]


@pytest.mark.parametrize(
    ("subset", "exclude", "samples"),
    [
        (["0%", "50%"], [], 3),
        ([1, "end"], [], 5),
        (["0%", "100%"], ["shard_000.tar/000001"], 5),
        (["50%", "100%"], ["shard_000.tar/000001"], 3),
        (["0%", "50%"], ["shard_000.tar/000001", "shard_001.tar"], 2),
        (["0%", "100%"], ["shard_001.tar"], 3),
    ],
)
def test_samples_are_counted_after_subset_and_excludes(
    own_datasets: Path, energon: RunEnergon, subset: list[str | int], exclude: list[str], samples: int
) -> None:
    split = own_datasets / "a/.nv-meta/split.yaml"
    split.write_text(split.read_text().replace("exclude: []", f"exclude: {exclude}"))
    mix = write_mix(own_datasets, train={"path": "a", "subset": {"range": subset}})
    assert energon("info", mix, "--json").json["splits"][0]["samples"] == samples


def test_a_missing_dataset_shows_in_the_tree_and_exits_1(datasets: Path, energon: RunEnergon) -> None:
    done = energon("info", write_mix(datasets, train=[{"path": "a"}, {"path": "gone"}, {"path": "raw"}]))
    assert done.code == 1
    assert "train: an unknown number of samples in 3 datasets" in done.out
    assert "├─ gone (train)  33.3 %                      error: there is no such folder: '/" in done.out
    assert "run: energon prepare " in done.out
    assert "2 datasets cannot be loaded" in done.out
    assert energon("info", datasets / "mix.yaml", "--json").json["faults"] == 2


@pytest.mark.parametrize(
    ("leaf", "fault"),
    [
        ({"path": "a", "split_part": "nope"}, "there is no split part 'nope'; there are: train, val, test"),
        ({"path": "texts.jsonl", "subset": {"range": [1, 9]}}, "the subset [1, 9] does not fit into 2 samples"),
        ({"path": "a", "aux": {"x": "filesystem://gone"}}, "aux x: there is no such folder"),
        (
            {"path": "a", "subset": {"range": ["0%", "1%"]}},
            "the subset of split part 'train' of this dataset has no sam",
        ),
    ],
)
def test_a_leaf_that_cannot_be_loaded_shows_the_reason(
    datasets: Path, energon: RunEnergon, leaf: dict[str, Any], fault: str
) -> None:
    done = energon("info", write_mix(datasets, train=leaf))
    assert done.code == 1
    assert re.search(rf"error: (\S+/a/\.nv-meta/split\.yaml: )?{re.escape(fault)}", done.out)
    assert "1 dataset cannot be loaded" in done.out


def test_a_join_shows_its_members_and_whether_it_is_prepared(datasets: Path, energon: RunEnergon) -> None:
    members = [{"path": "a"}, {"path": "b", "nonmatch": "skip", "subflavors": {"of": "b"}}]
    mix = write_mix(datasets, "joined.yaml", train={"join": members, "joiner": JOINER})
    done = energon("info", mix)
    assert done.code == 1
    assert "join of 2" in done.out
    assert "by no_such_module.Joined; error: this join is not prepared; run: energon prepare /" in done.out
    [leaf] = plan_leaves(mix, split_part="train", training=True)
    assert leaf.join is not None
    prepare_join(leaf.join)
    done = energon("info", mix)
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert ["join", "of", "2", "6", "1×", "by", "no_such_module.Joined"] in lines
    assert ["└─", "b", "(train)", "of:", "b;", "nonmatch", "skip"] in lines


def test_all_faults_of_the_documents_are_reported(datasets: Path, energon: RunEnergon) -> None:
    mix = write_mix(datasets, train=[{"path": "a", "weigth": 2}], val=[{"path": "a", "weight": -1}])
    done = energon("info", mix, "--json")
    assert (done.code, done.out) == (1, "")
    assert "splits.train.blend[0].weigth: there is no such key; did you mean 'weight'?" in done.err
    assert "splits.val.blend[0].weight: expected a number > 0, found -1" in done.err
    assert f"at: {mix}" in done.err


def test_a_split_for_validation_may_mix_weights_and_repetitions(datasets: Path, energon: RunEnergon) -> None:
    write_mix(datasets, "passes.yaml", val={"blend_epochized": [{"path": "a"}]})
    mix = write_mix(datasets, val=[{"path": "passes.yaml"}, {"path": "b"}])
    done = energon("info", mix)
    assert done.code == 0
    assert "val: 6 samples in 2 datasets, one after another" in done.out


def test_a_tree_of_200_leaves_has_a_line_for_each(datasets: Path, energon: RunEnergon) -> None:
    blend = [{"path": "a", "weight": number + 1, "subflavors": {"number": number}} for number in range(200)]
    done = energon("info", write_mix(datasets, train=blend))
    assert done.code == 0
    assert len(done.out.splitlines()) == 200 + 6
    assert len({line.index("×") for line in done.out.splitlines() if "×" in line}) == 1, "columns are aligned"


def test_a_name_wider_than_its_column_starts_beside_its_branch(datasets: Path, energon: RunEnergon) -> None:
    document = energon("info", write_mix(datasets, train=[{"path": "a"}, {"path": "b"}]), "--json").json
    node = next(leaves(document["splits"][0]["tree"]))
    node["path"] = f"{'a_long_folder/' * 5}last"
    screen = io.StringIO()
    show_metadataset(Console(width=60, file=screen, force_terminal=True, color_system=None), document)
    lines = [line.split("  ")[0] for line in screen.getvalue().splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith("├─ a_long_folder/"))
    assert lines[start + 1].startswith("   ") or not lines[start + 1]  # it continues under its beginning
    assert not any(line in ("├─", "└─") for line in lines)


def test_a_split_that_is_another_metadataset_names_it(datasets: Path, energon: RunEnergon) -> None:
    write_mix(datasets, "inner.yaml", train=[{"path": "a"}, {"path": "b"}])
    done = energon("info", write_mix(datasets, val={"path": "inner.yaml", "split_part": "train"}))
    assert "inner.yaml (train) → blend  " in done.out


def test_a_damaged_file_of_a_dataset_is_named_in_one_line(own_datasets: Path, energon: RunEnergon) -> None:
    (own_datasets / "a/.nv-meta/split.yaml").write_text("split_parts: 3\nexclude: 4\n")
    done = energon("info", write_mix(own_datasets, train=[{"path": "a"}, {"path": "b"}]))
    assert done.code == 1
    assert len(done.out.splitlines()) == 10
    assert f"error: {own_datasets}/a/.nv-meta/split.yaml: split_parts: " in done.out


def test_a_config_that_the_user_names_is_that_of_every_dataset(own_datasets: Path, energon: RunEnergon) -> None:
    mix = write_mix(own_datasets, train=[{"path": "a"}, {"path": "b", "split_config": "other.yaml"}])
    (own_datasets / "a/.nv-meta/one.yaml").write_text("split_parts: {train: [shard_000.tar]}\n")
    done = energon("info", mix, "--split-config", "one.yaml")
    assert done.code == 1
    assert "├─ a (train)  50.0 %        3             one.yaml" in done.out
    assert f"error: {own_datasets}/b/.nv-meta/one.yaml: there is no such file; check its name" in done.out


def test_values_that_json_does_not_know_are_written_as_text(datasets: Path, energon: RunEnergon) -> None:
    subflavors = {"day": dt.date(2020, 1, 2), "nested": {dt.date(2020, 1, 3): [b"x"]}}
    [split] = energon("info", write_mix(datasets, train={"path": "a", "subflavors": subflavors}), "--json").json[
        "splits"
    ]
    [leaf] = leaves(split["tree"])
    assert leaf["subflavors"] == {"day": "2020-01-02", "nested": {"2020-01-03": ["b'x'"]}}


def test_control_characters_of_documents_are_escaped(datasets: Path, energon: RunEnergon) -> None:
    done = energon("info", write_mix(datasets, train={"path": "a", "subflavors": {"\x1b[31m": "\x9b"}}))
    assert "\\x1b[31m: \\x9b" in done.out
    assert "\x1b" not in done.out


def test_torch_is_not_imported(datasets: Path) -> None:
    write_mix(datasets, train=[{"path": "a"}, {"path": "texts.jsonl"}])
    code = (
        "import sys; from energon_cli.main import main; "
        f"assert main(['info', {str(datasets / 'mix.yaml')!r}]) == 0; "
        "print('torch' in sys.modules, 'fsspec' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False False"
