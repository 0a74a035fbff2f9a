"""Assign shards to split parts by ratio, by patterns, or by their names."""

from __future__ import annotations

import pytest

from loader.errors import ConfigError
from loader.prepare.split import parse_split_part, split_by_patterns, split_by_ratio
from loader.prepare.split_names import detect_split, parse_ratio

THREE = {"train": 8.0, "val": 1.0, "test": 1.0}


def shard_names(count: int) -> list[str]:
    return [f"s_{index:03d}.tar" for index in range(count)]


def counts(count: int, ratio: dict[str, float]) -> list[int]:
    return [len(part) for part in split_by_ratio(shard_names(count), ratio).parts.values()]


# ------------------------------------------------------------------------------------------------------- ratios


@pytest.mark.parametrize(
    ("count", "expected"),
    # Results of megatron-energon 7.4.1 with --split-ratio 8,1,1.
    list({6: [4, 1, 1], 7: [5, 1, 1], 8: [6, 1, 1], 9: [7, 1, 1], 10: [8, 1, 1], 11: [8, 1, 2], 12: [9, 1, 2]}.items()),
)
def test_8_1_1_deals_the_shards_as_megatron_energon_does(count: int, expected: list[int]) -> None:
    assert counts(count, THREE) == expected


@pytest.mark.parametrize(("count", "expected"), [(3, [1, 1, 1]), (4, [1, 1, 2]), (5, [1, 2, 2]), (7, [2, 2, 3])])
def test_1_1_1_deals_the_shards_as_megatron_energon_does(count: int, expected: list[int]) -> None:
    assert counts(count, {"train": 1, "val": 1, "test": 1}) == expected


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [1, 0, 0]), (2, [1, 1, 0]), (3, [1, 1, 1]), (4, [2, 1, 1]), (5, [3, 1, 1])]
)
def test_every_part_gets_a_shard_while_there_are_enough_and_train_comes_first(count: int, expected: list[int]) -> None:
    assert counts(count, THREE) == expected


def test_a_tiny_share_still_gets_a_shard() -> None:
    assert counts(7, {"train": 0.98, "val": 0.01, "test": 0.01}) == [5, 1, 1]
    assert counts(7, {"train": 0.01, "val": 0.98, "test": 0.01}) == [1, 5, 1]
    assert counts(7, {"train": 0.01, "val": 0.01, "test": 0.98}) == [1, 1, 5]


def test_a_part_with_ratio_0_stays_empty_without_a_warning() -> None:
    result = split_by_ratio(shard_names(10), {"train": 1, "val": 0, "test": 0})
    assert result.parts == {"train": tuple(shard_names(10)), "val": (), "test": ()}
    assert result.warnings == ()
    assert counts(1, {"train": 0, "val": 1}) == [0, 1]


def test_one_shard_is_all_train_and_warns_about_the_empty_parts() -> None:
    result = split_by_ratio(["a.tar"], THREE)
    assert result.parts == {"train": ("a.tar",), "val": (), "test": ()}
    assert result.warnings == (
        "part 'val' is empty: 1 shard for 3 parts, and shards are never divided",
        "part 'test' is empty: 1 shard for 3 parts, and shards are never divided",
    )


def test_no_shards_leave_every_part_empty() -> None:
    result = split_by_ratio([], THREE)
    assert result.parts == {"train": (), "val": (), "test": ()}
    assert result.warnings[0] == "part 'train' is empty: 0 shards for 3 parts, and shards are never divided"


@pytest.mark.parametrize("ratio", [(7, 2, 1), (0.7, 0.2, 0.1), (0.07, 0.02, 0.01)])
def test_shares_are_exact_decimals_so_that_rounding_loses_no_shard(ratio: tuple[float, float, float]) -> None:
    # In binary fractions 7/10 + 2/10 + 1/10 is below 1, so that the last shard would be in no part.
    assert counts(10, dict(zip(("train", "val", "test"), ratio, strict=True))) == [7, 2, 1]


def test_shards_stay_in_order_without_a_seed() -> None:
    parts = split_by_ratio(["c", "a", "b"], {"train": 2, "val": 1}).parts
    assert parts == {"train": ("c", "a"), "val": ("b",)}


@pytest.mark.parametrize(("count", "order"), [(5, "3 1 2 4 0"), (10, "7 3 2 8 5 6 9 4 0 1")])
def test_seed_42_is_the_order_that_megatron_energon_shuffles_into(count: int, order: str) -> None:
    # Golden values too: a split must not depend on the version of Python.
    parts = split_by_ratio([str(number) for number in range(count)], {"train": 1}, shuffle_seed=42).parts
    assert " ".join(parts["train"]) == order


def test_a_seeded_shuffle_is_the_same_every_time_and_another_for_another_seed() -> None:
    first = split_by_ratio(shard_names(10), THREE, shuffle_seed=1)
    assert first == split_by_ratio(shard_names(10), THREE, shuffle_seed=1)
    assert first != split_by_ratio(shard_names(10), THREE, shuffle_seed=2)
    assert sorted(name for part in first.parts.values() for name in part) == shard_names(10)


def test_the_given_list_of_shards_is_not_changed_by_a_shuffle() -> None:
    shards = shard_names(5)
    split_by_ratio(shards, THREE, shuffle_seed=0)
    assert shards == shard_names(5)


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        ("8,1,1", THREE),
        ("0.8, 0.1 ,0.1", {"train": 0.8, "val": 0.1, "test": 0.1}),
        ("9,1", {"train": 9.0, "val": 1.0}),
        ("1", {"train": 1.0}),
        ("1,0,0", {"train": 1.0, "val": 0.0, "test": 0.0}),
        ("train=8,holdout=2", {"train": 8.0, "holdout": 2.0}),
        (" a = 1e2 ", {"a": 100.0}),
    ],
)
def test_ratios_are_read(text: str, ratio: dict[str, float]) -> None:
    assert parse_ratio(text) == ratio
    assert list(parse_ratio(text)) == list(ratio)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "has '', expected a number"),
        ("a,b", "has 'a', expected a number"),
        ("8,1,1,", "has 4 numbers, expected at most 3"),
        ("8,,1", "has '', expected a number"),
        ("-1,1,1", "has '-1', expected a number"),
        ("nan,1", "has 'nan', expected a number"),
        ("inf,1", "has 'inf', expected a number"),
        ("1e999,1", "has '1e999', expected a number"),
        ("0,0,0", "leaves every part empty"),
        ("a=1,a=2", "names 'a' twice"),
        ("a=1,2", "has '', expected a number"),
        ("=1", "has '1', expected a number"),
    ],
)
def test_what_is_no_ratio_is_refused_with_an_example(text: str, found: str) -> None:
    with pytest.raises(ConfigError, match=found) as caught:
        parse_ratio(text)
    assert "8,1,1" in str(caught.value.hint)


# ------------------------------------------------------------------------------------------------------- patterns

SHARDS = ["000001.tar", "000002.tar", "000010.tar", "Train_3.tar", "a+b.tar", "p{1}.tar", "test.tar"]
SHARDS += [f"train/s_{number}.tar" for number in ("0", "1", "10", "2")] + ["val/s_0.tar", "val_1/x.tar"]


def matched(*patterns: str) -> tuple[str, ...]:
    return split_by_patterns(SHARDS, [("t", pattern) for pattern in patterns]).parts["t"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    # megatron-energon 7.4.1 matches the same shards, except for patterns with a backslash.
    [
        ("train/.*", ("train/s_0.tar", "train/s_1.tar", "train/s_10.tar", "train/s_2.tar")),
        ("val", ("val/s_0.tar", "val_1/x.tar")),
        ("train/s_0", ("train/s_0.tar",)),
        ("train/s_{0..2}.tar", ("train/s_0.tar", "train/s_1.tar", "train/s_2.tar")),
        ("train/s_{10,0}.tar", ("train/s_0.tar", "train/s_10.tar")),
        ("train/s_{0..10..2}.tar", ("train/s_0.tar", "train/s_10.tar", "train/s_2.tar")),
        ("{train,val}/s_0.tar", ("train/s_0.tar", "val/s_0.tar")),
        ("00000{1..2}.tar", ("000001.tar", "000002.tar")),
        ("0000{01..10}.tar", ("000001.tar", "000002.tar", "000010.tar")),
        ("train/s_(0|2).tar", ("train/s_0.tar", "train/s_2.tar")),
        ("[a-z]{4}.tar", ("test.tar",)),
        (".*s_0.tar", ("train/s_0.tar", "val/s_0.tar")),
        (".*", tuple(SHARDS)),
        (r"\d{6}\.tar$", ("000001.tar", "000002.tar", "000010.tar")),
        (r"a\+b", ("a+b.tar",)),
        (r"p\{1\}", ("p{1}.tar",)),
        (r"p[\{x]{1,2}", ("p{1}.tar",)),
        ("(?i)TRAIN_", ("Train_3.tar",)),
        ("zz|a", ("a+b.tar",)),
        ("trainx?/s_1", ("train/s_1.tar", "train/s_10.tar")),
        ("testx*", ("test.tar",)),
        ("valx{0}_", ("val_1/x.tar",)),
        ("va+l_", ("val_1/x.tar",)),
    ],
)
def test_a_pattern_is_expanded_and_then_a_regex_from_the_start(pattern: str, expected: tuple[str, ...]) -> None:
    assert matched(pattern) == expected


@pytest.mark.parametrize("pattern", ["s_0.tar", "t:x", "a+b", "train/s_0.tar.", "TRAIN/", " train"])
def test_a_pattern_is_not_searched_for_in_the_middle_nor_taken_literally(pattern: str) -> None:
    with pytest.raises(ConfigError, match="matches no shard"):
        matched(pattern)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.tar", ("000001.tar", "000002.tar", "000010.tar", "Train_3.tar", "a+b.tar", "p{1}.tar", "test.tar")),
        ("train/*", ("train/s_0.tar", "train/s_1.tar", "train/s_10.tar", "train/s_2.tar")),
        ("**", tuple(SHARDS)),
        ("**/s_0.tar", ("train/s_0.tar", "val/s_0.tar")),
        ("**/test.tar", ("test.tar",)),
        ("train/s_?.tar", ("train/s_0.tar", "train/s_1.tar", "train/s_2.tar")),
        ("train/s_[01].tar", ("train/s_0.tar", "train/s_1.tar")),
        ("train/s_[!0-1].tar", ("train/s_2.tar",)),
        ("train/s_{0..1}.*", ("train/s_0.tar", "train/s_1.tar")),
        ("{train,val}/s_0.tar", ("train/s_0.tar", "val/s_0.tar")),
        ("a+b.tar", ("a+b.tar",)),
        (r"p\{1\}.tar", ("p{1}.tar",)),
        ("val*/*", ("val/s_0.tar", "val_1/x.tar")),
        ("v[a-z/]l/*", ("val/s_0.tar",)),
    ],
)
def test_a_glob_matches_the_whole_name_and_a_star_stays_in_its_folder(pattern: str, expected: tuple[str, ...]) -> None:
    assert matched(f"glob:{pattern}") == expected


@pytest.mark.parametrize("pattern", ["train", "test", "train?s_0.tar", "train[!x]s_0.tar", "train/s_[", "a.b.tar"])
def test_a_glob_matches_neither_half_names_nor_across_folders(pattern: str) -> None:
    with pytest.raises(ConfigError, match="matches no shard"):
        matched(f"glob:{pattern}")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("[[]x.tar", "[x.tar"),
        ("[]]x.tar", "]x.tar"),
        ("[&&^~]", "^"),
        (r"[\\]", "\\"),
        ("x[]", "x[]"),
        ("[!]", "!"),
        ("x[", "x["),
        ("a\nb*", "a\nb\nc"),
    ],
)
def test_odd_characters_in_globs_are_mere_characters(pattern: str, name: str) -> None:
    assert split_by_patterns([name, "other"], [("t", f"glob:{pattern}")]).parts == {"t": (name,)}


def test_two_patterns_of_one_part_add_up_in_the_order_of_the_dataset() -> None:
    assert matched("train/s_2.tar", "test", "train/s_0") == ("test.tar", "train/s_0.tar", "train/s_2.tar")


def test_all_patterns_at_fault_are_reported_at_once() -> None:
    patterns = [("a", "trian/.*"), ("b", "(x"), ("c", "s_{0..2"), ("d", "test"), ("e", "x{0..99999999}")]
    patterns += [("f", "(" * 10_000), ("g", "a{99999999999999999999}"), ("h", "glob:nope")]
    with pytest.raises(ConfigError) as caught:
        split_by_patterns(SHARDS, patterns)
    found = [str(fault) for fault in caught.value.faults]
    assert [text.split(":")[0] for text in found] == ["a", "b", "c", "e", "f", "g", "h"]
    assert found[0].startswith("a:trian/.*: this matches no shard; shards are called 'train/s_")
    assert "not a regex: missing )" in found[1]
    assert "unbalanced brace" in found[2]
    assert "expands to 100,000,000 names" in found[3]
    assert "not a regex" in found[4]
    assert "not a regex" in found[5]


def test_a_regex_at_fault_is_found_even_where_no_shard_begins_like_it() -> None:
    with pytest.raises(ConfigError, match="not a regex"):
        matched("nowhere{0..5}(")


def test_a_pattern_over_no_shards_says_that_there_are_none() -> None:
    with pytest.raises(ConfigError, match="there are no shards"):
        split_by_patterns([], [("a", "x")])


def test_shards_in_two_parts_are_warned_about() -> None:
    result = split_by_patterns(SHARDS, [("a", "train"), ("b", "train/s_0"), ("c", ".*")])
    assert result.parts["b"] == ("train/s_0.tar",)
    assert result.warnings == (
        "parts 'a' and 'b' and 'c' overlap: each holds 'train/s_0.tar'",
        "parts 'a' and 'c' overlap: each holds 'train/s_1.tar' and 2 more",
    )


def test_shards_in_no_part_are_warned_about() -> None:
    result = split_by_patterns(SHARDS, [("a", "train"), ("b", "[0-9Tapt]")])
    assert result.warnings == (
        "parts 'a' and 'b' overlap: each holds 'train/s_0.tar' and 3 more",
        "2 shards in no part: 'val/s_0.tar' and 1 more",
    )


def test_disjoint_patterns_over_all_shards_warn_of_nothing() -> None:
    assert split_by_patterns(["a", "b"], [("x", "a"), ("y", "b")]).warnings == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train:train/.*", ("train", "train/.*")),
        ("train:glob:train/*", ("train", "glob:train/*")),
        (" a : b:c ", ("a", "b:c")),
    ],
)
def test_split_part_arguments_are_read(text: str, expected: tuple[str, str]) -> None:
    assert parse_split_part(text) == expected


@pytest.mark.parametrize("text", ["nocolon", ":x", "a:", ":", ""])
def test_what_is_no_split_part_argument_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not NAME:PATTERN"):
        parse_split_part(text)


# ------------------------------------------------------------------------------------------------------- detection


@pytest.mark.parametrize(
    ("shards", "parts"),
    [
        (["train/0.tar", "val/0.tar"], {"train": ["train/0.tar"], "val": ["val/0.tar"]}),
        (["val_0.tar", "train_0.tar"], {"train": ["train_0.tar"], "val": ["val_0.tar"]}),
        (["cc-train-1.tar", "cc-valid-1.tar"], {"train": ["cc-train-1.tar"], "val": ["cc-valid-1.tar"]}),
        (["Training/a.tar", "TEST01.tar"], {"train": ["Training/a.tar"], "test": ["TEST01.tar"]}),
        (["a/validation.tar", "a/test.tar"], {"val": ["a/validation.tar"], "test": ["a/test.tar"]}),
        (["train/test_0.tar", "val/train_0.tar"], {"train": ["train/test_0.tar"], "val": ["val/train_0.tar"]}),
        (
            ["train_val/train.tar", "train_val/val.tar"],
            {"train": ["train_val/train.tar"], "val": ["train_val/val.tar"]},
        ),
    ],
)
def test_names_that_tell_their_part_are_detected(shards: list[str], parts: dict[str, list[str]]) -> None:
    detected = detect_split(shards)
    assert detected == {name: tuple(names) for name, names in parts.items()}
    assert list(detected or {}) == list(parts)


@pytest.mark.parametrize(
    "shards",
    [
        [],
        ["a.tar", "b.tar"],
        ["train_0.tar", "train_1.tar"],
        ["train_0.tar", "val_0.tar", "extra.tar"],
        ["trainval_0.tar", "test.tar"],
        ["train_test.tar", "val.tar"],
        ["retrain.tar", "val.tar"],
        ["latest.tar", "train.tar"],
    ],
)
def test_nothing_is_proposed_where_some_shard_tells_no_part_or_all_tell_the_same(shards: list[str]) -> None:
    assert detect_split(shards) is None
