from __future__ import annotations

import pytest

from loader.errors import ConfigError
from loader.format.documents.brace_patterns import compact_names, count_names, escape_name, expand_pattern


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("plain.tar", ["plain.tar"]),
        ("", [""]),
        ("s_{08..10}.tar", ["s_08.tar", "s_09.tar", "s_10.tar"]),
        ("s_{9..11}", ["s_9", "s_10", "s_11"]),
        ("{3..1}", ["3", "2", "1"]),
        ("{0..9..3}", ["0", "3", "6", "9"]),
        ("{0..2..0}", ["0", "1", "2"]),
        ("{a..e..2}", ["a", "c", "e"]),
        ("{c..a}", ["c", "b", "a"]),
        ("{train,val}/{0..1}.tar", ["train/0.tar", "train/1.tar", "val/0.tar", "val/1.tar"]),
        ("x{a,b{1..2},}", ["xa", "xb1", "xb2", "x"]),
        ("{{a,b}}", ["{a}", "{b}"]),
        ("{}{a}{1..}", ["{}{a}{1..}"]),
        (r"\{a,b\}\\", ["{a,b}\\"]),
        (r"{a\,b,c}", ["a,b", "c"]),
        ("a,b c", ["a,b c"]),
    ],
)
def test_patterns_expand_as_in_bash(pattern: str, names: list[str]) -> None:
    assert expand_pattern(pattern) == names
    assert count_names(pattern) == len(names)


@pytest.mark.parametrize(
    "pattern",
    [
        "{0..999999999999}",
        "{0..999}{0..999}{0..999}",
        "{1..2}" * 200,
        "{a,{0..9999999}}",
        "{0..-9999999}",
        "{{0..9999999}}",
        "{{0..999}{0..999}{0..999}}",
        "{0..9999999..2}",
    ],
)
def test_more_names_than_the_limit_are_refused_before_any_is_made(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"expands to .* names, expected at most 1,000,000"):
        expand_pattern(pattern)


def test_the_limit_is_inclusive() -> None:
    assert len(expand_pattern("{1..10}", limit=10)) == 10
    with pytest.raises(ConfigError, match="expands to 10 names, expected at most 9"):
        expand_pattern("{1..10}", limit=9)


def test_few_names_that_are_very_long_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="1,000,000 names of up to 1,0"):
        expand_pattern("x" * 1000 + "{000000..999999}")


@pytest.mark.parametrize("number", ["9" * 20, "9" * 5000, "1.." + "9" * 5000])
def test_numbers_of_absurd_length_are_refused(number: str) -> None:
    with pytest.raises(ConfigError, match="more than 18 digits"):
        expand_pattern("{0.." + number + "}")
    with pytest.raises(ConfigError, match="more than 18 digits"):
        expand_pattern("{a..z.." + "9" * 5000 + "}")


def test_braces_nest_32_deep_and_no_further() -> None:
    assert expand_pattern("{" * 32 + "a,b" + "}" * 32) == ["{" * 31 + name + "}" * 31 for name in "ab"]
    with pytest.raises(ConfigError, match="nests braces more than 32 deep"):
        expand_pattern("{" * 20_000 + "}" * 20_000)


@pytest.mark.parametrize("pattern", ["a{b", "a}b", "{a,b", "}{", "{a,{b}", r"{a\}", "{" * 50])
def test_a_brace_without_its_partner_is_an_error_that_says_how_to_write_it(pattern: str) -> None:
    with pytest.raises(ConfigError, match="unbalanced brace") as caught:
        expand_pattern(pattern)
    assert "\\{" in str(caught.value.hint)


def test_long_patterns_are_shortened_in_messages() -> None:
    with pytest.raises(ConfigError) as caught:
        expand_pattern("{" + "x" * 10_000)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        ([], []),
        (["a.tar"], ["a.tar"]),
        (["s_000.tar", "s_001.tar"], ["s_{000..001}.tar"]),
        ([f"s_{i:02d}.tar" for i in range(8, 13)], ["s_{08..12}.tar"]),
        (["s_9", "s_10", "s_11"], ["s_{9..11}"]),
        (["s_0", "s_1"], ["s_{0..1}"]),
        (["0", "1", "01", "02"], ["{0..1}", "{01..02}"]),
        (["098", "099", "100"], ["{098..100}"]),
        (["98", "99", "100"], ["{98..100}"]),
        (["99", "0100"], ["99", "0100"]),
        (["099", "0100"], ["099", "0100"]),
        (["2", "1", "0"], ["2", "1", "0"]),
        (["1", "3", "5"], ["1", "3", "5"]),
        (["1", "1"], ["1", "1"]),
        (["a/s_0.tar", "b/s_1.tar"], ["a/s_0.tar", "b/s_1.tar"]),
        (["s_0.tar", "s_1.tgz"], ["s_0.tar", "s_1.tgz"]),
        ([f"s_{i}-of-3.tar" for i in range(3)], ["s_{0..2}-of-3.tar"]),
        ([f"p{a}/{b}.tar" for a in range(2) for b in range(3)], ["p{0..1}/{0..2}.tar"]),
        (["p0/0", "p0/1", "p1/0", "p1/2"], ["p0/{0..1}", "p1/0", "p1/2"]),
        (["{a}1.tar", "{a}2.tar"], [r"\{a\}{1..2}.tar"]),
        (["a{1..3}", "a{1..4}"], [r"a\{1..{3..4}\}"]),
        (["\\1", "\\2"], [r"\\{1..2}"]),
        (["9" * 18, "1" + "0" * 18], ["9" * 18, "1" + "0" * 18]),
        (["٣", "٤"], ["٣", "٤"]),
    ],
)
def test_runs_of_neighbours_become_ranges(names: list[str], patterns: list[str]) -> None:
    assert compact_names(names) == patterns
    assert [name for pattern in patterns for name in expand_pattern(pattern)] == names


def test_fifty_thousand_shards_in_folders_are_one_pattern() -> None:
    names = (f"{folder:03d}/s_{shard:03d}.tar" for folder in range(50) for shard in range(1000))
    assert compact_names(names) == ["{000..049}/s_{000..999}.tar"]


def test_names_with_very_many_numbers_stay_cheap_and_exact() -> None:
    names = [".".join("1" * 500) + f".{last}" for last in range(3)]
    (pattern,) = compact_names(names)
    assert pattern.endswith(".{0..2}")


@pytest.mark.parametrize("name", ["{", "}", "\\", "{a,b}", "\\{", "a\\", "{1..3}", "plain"])
def test_escaped_names_expand_to_themselves(name: str) -> None:
    assert expand_pattern(escape_name(name)) == [name]
