from __future__ import annotations

import json
from fractions import Fraction

import pytest
import yaml

from loader.errors import ConfigError
from loader.format.documents.split_config import SplitConfig, format_split_config, parse_split_config, split_sample_name
from loader.format.documents.subset import SampleRange, ShareRange, SubsetRange


def faults_of(text: str, file: str = "split.yaml") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_split_config(text, file=file)
    assert file in str(caught.value)
    return [str(fault) for fault in caught.value.faults]


PEER_YAML = """\
split_parts:
  train:
  - shard_{00000..00002}.tar
  - '{000001..000002}.tar'
  val:
  - shard_00003.tar
  test: []
exclude: []
"""


def test_a_file_written_by_megatron_energon_is_read() -> None:
    config = parse_split_config(PEER_YAML, file="split.yaml")
    assert config.split_parts == {
        "train": ("shard_00000.tar", "shard_00001.tar", "shard_00002.tar", "000001.tar", "000002.tar"),
        "val": ("shard_00003.tar",),
        "test": (),
    }
    assert config.exclude == ()


def test_the_form_megatron_energon_writes_is_the_form_we_write() -> None:
    assert format_split_config(parse_split_config(PEER_YAML, file="split.yaml")) == PEER_YAML


def test_json_is_read_from_a_file_called_json_and_may_be_indented_by_tabs() -> None:
    text = json.dumps({"split_parts": {"a": ["{0..1}.tar"]}, "exclude": ["0.tar/k"]}, indent="\t")
    config = parse_split_config(text, file="split.json")
    assert config == SplitConfig(split_parts={"a": ("0.tar", "1.tar")}, exclude=("0.tar/k",))


def test_json_in_a_yaml_file_is_read_too() -> None:
    assert parse_split_config('{"split_parts": {"a": ["b"]}}', file="split.yaml").split_parts == {"a": ("b",)}


def test_exclude_may_be_missing_and_lists_may_be_empty() -> None:
    config = parse_split_config("split_parts:\n  train: [a.tar]\n  val:\n", file="s")
    assert config == SplitConfig(split_parts={"train": ("a.tar",), "val": ()}, exclude=())
    assert parse_split_config("split_parts: {}\nexclude:\n", file="s") == SplitConfig(split_parts={}, exclude=())


def test_one_shard_may_stand_in_two_parts() -> None:
    config = parse_split_config("split_parts: {train: [a.tar], all: [a.tar]}", file="s")
    assert config.split_parts == {"train": ("a.tar",), "all": ("a.tar",)}


UNBALANCED = (
    "split_parts.train[4]: '{' has an unbalanced brace; "
    "close it, or write \\{ and \\} for braces that belong to the name"
)


def test_every_fault_is_reported_with_its_place() -> None:
    text = """
split_parts:
  train: [a.tar, a.tar, '{0..99999999}.tar', b.tar, '{', '{c,c}.tar']
  val: b.tar
  test: [3, [x], null, '', 2024-01-02, {x: y}, true]
  1: [c.tar]
exlude: []
2: x
exclude: [a.tar/, d.tar]
sample_filters: {train: ../x, val: best, tran: best}
"""
    assert faults_of(text) == [
        "exlude: there is no such key; did you mean 'exclude'?",
        "2: there is no such key; known are split_parts, exclude, sample_ranges, sample_filters",
        "split_parts.val: expected a list of names, found 'b.tar'",
        "split_parts.test[0]: expected a name, found 3; put it in quotes",
        "split_parts.test[1]: expected a name, found ['x']",
        "split_parts.test[2]: expected a name, found nothing",
        "split_parts.test[3]: expected a name, found ''",
        "split_parts.test[4]: expected a name, found datetime.date(2024, 1, 2); put it in quotes",
        "split_parts.test[5]: expected a name, found {'x': 'y'}",
        "split_parts.test[6]: expected a name, found True; put it in quotes",
        "split_parts.1: expected the name of a part, found 1; put it in quotes",
        "sample_filters.train: expected the name of a filter: letters, digits, '.', '_' and '-', found '../x'",
        "split_parts.train[1]: 'a.tar' is listed twice in this part (also at split_parts.train[0])",
        "split_parts.train[2]: '{0..99999999}.tar' expands to 100,000,000 names, expected at most 999,998",
        UNBALANCED,
        "split_parts.train[5]: 'c.tar' is listed twice in this part (also at split_parts.train[5])",
        "exclude[0]: 'a.tar/' ends in a slash; expected a shard, or a shard, a slash and a key",
        "sample_filters.tran: split_parts has no such part; there are: train, val, test",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "expected a mapping with split_parts and exclude, found nothing"),
        ("- a", "expected a mapping with split_parts and exclude, found ['a']"),
        ("exclude: []", "split_parts: expected a mapping from part to list of shards, found nothing"),
        ("split_parts: [a]", "split_parts: expected a mapping from part to list of shards, found ['a']"),
        ("split_parts:", "split_parts: expected a mapping from part to list of shards, found nothing"),
        ("split_parts: {'': [a]}", "split_parts.: expected the name of a part, found ''"),
        ("split_parts: {a: 1.5}", "split_parts.a: expected a list of names, found 1.5"),
    ],
)
def test_documents_of_another_shape_are_named_for_what_they_are(text: str, fault: str) -> None:
    assert faults_of(text) == [fault]


def test_a_shard_listed_again_inside_a_range_is_found() -> None:
    (fault,) = faults_of("split_parts: {t: ['s_{0..5}.tar', 's_3.tar']}")
    assert fault == "split_parts.t[1]: 's_3.tar' is listed twice in this part (also at split_parts.t[0])"


def test_many_patterns_together_may_not_be_a_memory_bomb_either() -> None:
    patterns = ", ".join(f"'{letter}{{0..600000}}'" for letter in "ab")
    (fault,) = faults_of(f"split_parts: {{t: [{patterns}]}}")
    assert fault.startswith("split_parts.t[1]: 'b{0..600000}' expands to 600,001 names, expected at most 399,999")


def test_syntax_errors_tell_line_and_column() -> None:
    (fault,) = faults_of("split_parts:\n  train: [a\n")
    assert fault.startswith("line 3, column 1: ")
    (fault,) = faults_of('{"split_parts": \n {"a": [}}', file="split.json")
    assert fault.startswith("line 2, column 9: this is not valid JSON")


def test_a_key_given_twice_is_a_fault() -> None:
    assert faults_of("split_parts: {a: [x], a: [y]}") != []
    assert faults_of('{"split_parts": {"a": [], "a": []}}', file="split.json") == ["'a' is given twice"]


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5000])
def test_json_that_the_parser_gives_up_on_is_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError, match="this JSON cannot be parsed"):
        parse_split_config(text, file="split.json")


def test_no_tag_makes_an_object() -> None:
    faults = faults_of("split_parts: !!python/object/apply:os.getcwd []")
    assert "not plain YAML" in faults[0]


def test_a_lone_surrogate_does_not_hide_a_syntax_error() -> None:
    assert "expected the node content" in faults_of('split_parts: {"\\udc80": [')[0]
    assert "could not determine a constructor" in faults_of('x: "\\udc80"\nsplit_parts: !unknown {}')[0]


def test_references_cannot_fill_the_memory_behind_a_lone_surrogate() -> None:
    levels = "".join(f"k{n}: &k{n}\n  <<: [{', '.join([f'*k{n - 1}'] * 9)}]\n" for n in range(1, 12))
    with pytest.raises(ConfigError):
        parse_split_config(f'k0: &k0 {{x: "\\udc80"}}\n{levels}', file="split.yaml")


def test_excluded_shards_and_samples_are_told_apart() -> None:
    config = parse_split_config(
        """
split_parts: {train: ['a/b_{0..3}.tar', odd.name, odd.name/deeper]}
exclude: ['a/b_{0..1}.tar', 'a/b_2.tar/dir/k_{0..1}', odd.name/key/x, odd.name/deeper/k, other.tar, other.tar/x.tar/k]
""",
        file="s",
    )
    assert config.excluded_shards() == {"a/b_0.tar", "a/b_1.tar", "other.tar"}
    assert config.excluded_samples() == {
        "a/b_2.tar": {"dir/k_0", "dir/k_1"},
        "odd.name": {"key/x"},
        "odd.name/deeper": {"k"},
        "other.tar": {"x.tar/k"},
    }


def test_repeated_excludes_count_once() -> None:
    config = parse_split_config("split_parts: {}\nexclude: [b.tar, a.tar, 'b.tar']", file="s")
    assert config.exclude == ("b.tar", "a.tar")


@pytest.mark.parametrize(
    ("name", "shards", "halves"),
    [
        ("a.tar", (), ("a.tar", None)),
        ("a.tar/k", (), ("a.tar", "k")),
        ("x/a.tar/k/l.tar", (), ("x/a.tar", "k/l.tar")),
        ("x.tar/a.tar/k", (), ("x.tar", "a.tar/k")),
        ("x.tar/a.tar/k", ("x.tar/a.tar",), ("x.tar/a.tar", "k")),
        ("x.tar/a.tar", ("x.tar/a.tar", "x.tar"), ("x.tar/a.tar", None)),
        ("plain/k", ("plain",), ("plain", "k")),
        ("plain/k", (), ("plain/k", None)),
        ("/k", ("",), ("/k", None)),
    ],
)
def test_a_sample_name_splits_behind_its_shard(
    name: str, shards: tuple[str, ...], halves: tuple[str, str | None]
) -> None:
    assert split_sample_name(name, frozenset(shards)) == halves


AWKWARD = [
    *("yes", "no", "null", "~", "1", "1.5", "2024-01-01", "0x1", "1:30", "<<", "=", "-", "- a", "? a", "a: b", "a #b"),
    *(
        "#a",
        "&a",
        "*a",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "'",
        '"',
        "it's",
        "",
        " a ",
        "a,b",
        "[a]",
        "{a}",
        "\\",
        "é",
        "日本",
    ),
    *("a\nb", "a\tb", "\x00", "\x7f", "\x85", "\u2028", "\ufeff", "\U0001f600", "\U000e0001", "x" * 500, "---", "..."),
]


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names_come_back_from_the_written_file(name: str) -> None:
    config = SplitConfig(split_parts={name or "p": (name + ".tar", "a" + name)}, exclude=(f"s.tar/{name}k",))
    text = format_split_config(config)
    assert parse_split_config(text, file="split.yaml") == config
    assert yaml.safe_load(text).keys() == {"split_parts", "exclude"}


def test_names_that_are_no_utf8_come_back_from_the_written_file() -> None:
    config = SplitConfig(split_parts={"train": ("\udcff.tar", "ok.tar")}, exclude=("ok.tar/\udc80",))
    text = format_split_config(config)
    text.encode()  # The text itself is UTF-8.
    assert parse_split_config(text, file="split.yaml") == config


def test_an_empty_split_is_written_as_empty() -> None:
    assert format_split_config(SplitConfig(split_parts={})) == "split_parts: {}\nexclude: []\n"


def test_common_names_are_written_without_quotes() -> None:
    config = SplitConfig(split_parts={"train": tuple(f"a/s-{i}_x.tar" for i in range(3))}, exclude=("a/s-0_x.tar/k.1",))
    assert format_split_config(config) == (
        "split_parts:\n  train:\n  - a/s-{0..2}_x.tar\nexclude:\n- a/s-0_x.tar/k.1\n"
    )


def test_a_split_is_written_as_json_where_the_name_says_so() -> None:
    config = SplitConfig(
        split_parts={"train": ("s_0.tar", "s_1.tar"), "val": (), "é\udcff": ("\udcfe.tar",)},
        exclude=("s_0.tar/{x}", 's_1.tar/"'),
    )
    for file in ("split.json", "my.JSON", "split.yaml"):
        assert parse_split_config(format_split_config(config, file=file), file=file) == config
    document = json.loads(format_split_config(config, file="split.json"))
    assert document["split_parts"]["train"] == ["s_{0..1}.tar"]


@pytest.mark.parametrize("file", ["split.yaml", "split.json"])
def test_ranges_of_samples_are_written_and_read(file: str) -> None:
    ranges: dict[str, SubsetRange] = {
        "train": ShareRange(start=Fraction(0), stop=Fraction(666667, 1_000_000)),
        "val": SampleRange(start=5, stop=None),
    }
    config = SplitConfig(split_parts={"train": ("a.tar",), "val": ("a.tar",)}, sample_ranges=ranges)
    assert parse_split_config(format_split_config(config, file=file), file=file) == config
    assert (config.samples_of("train", 10), config.samples_of("val", 10)) == (range(6), range(5, 10))


def test_faults_in_ranges_of_samples_have_their_places() -> None:
    text = """
split_parts: {train: [a.tar], val: [a.tar]}
sample_ranges: {train: [80%, 20%], val: 3, test: [0%, 1%]}
"""
    assert [fault.partition(":")[0] for fault in faults_of(text)] == [
        "sample_ranges.train",
        "sample_ranges.val",
        "sample_ranges.test",
    ]
