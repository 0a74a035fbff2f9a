"""Findings of one cause, whatever details their messages have."""

from __future__ import annotations

import pytest

from loader.lint import Finding, group_findings
from loader.lint.record_file import JsonlFiles
from loader.lint.rule import LintRule
from loader.lint.samples import SampleFaults
from loader.metadataset.lint import Metadatasets


def finding(
    message: str, key: str | None = "0", *, rule: LintRule = SampleFaults.E307, shard: str | None = "s.tar"
) -> Finding:
    return Finding(rule, message, shard=shard, key=key)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "part 'jpg' is not an image (it starts with b'<a>')",
            "part 'jpg' is not an image (it starts with b\"<b 'x'>\")",
        ),
        ("field 'x' needs part jpg; the sample has txt", "field 'x' needs part jpg; the sample has txt, cls"),
        ("json has no 'caption', only id", "json has no 'caption', only id, url; did you mean 'url'?"),
        ("expected text, found dict: {'en': 1}", "expected text, found dict: {'de': 'found it'}"),
        ("it ends at byte 71", "it ends at byte 99"),
        ("sample a.tar/1 has the same key: look-up finds both", "sample b.tar/x has the same key: look-up finds both"),
    ],
)
def test_details_do_not_separate(first: str, second: str) -> None:
    [group] = group_findings([finding(first, "0"), finding(second, "1")])
    assert (group.places, group.noun, group.first.message) == (("s.tar/0", "s.tar/1"), "sample", first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("field 'image' (jpg) is missing", "field 'caption' (txt) is missing"),
        ("expected text, found dict: {}", "expected text, found list: []"),
        ("expected text, found int: 3", "expected text, found an image"),
        ("json has no 'a', only b", "json has no 'c', only b"),
    ],
)
def test_causes_separate(first: str, second: str) -> None:
    assert len(group_findings([finding(first), finding(second, "1")])) == 2


def test_codes_datasets_and_parts_separate_and_the_order_is_that_of_the_first() -> None:
    found = [
        finding("m", rule=SampleFaults.E302),
        Finding(SampleFaults.E302, "m", shard="s.tar", key="0", part="jpg"),
        Finding(SampleFaults.E302, "m", shard="s.tar", key="0", dataset="/data/a"),
        finding("m", "1", rule=SampleFaults.E302),
    ]
    assert [group.findings for group in group_findings(found)] == [(found[0], found[3]), (found[1],), (found[2],)]


def test_findings_about_the_whole_dataset_stay_single() -> None:
    found = [
        finding(f"splits.train.blend[{number}]: gone", None, rule=Metadatasets.E501, shard=None) for number in (0, 1)
    ]
    assert len(group_findings(found)) == 2


@pytest.mark.parametrize(
    ("shards", "offsets", "places", "noun"),
    [
        (["a.tar", "b.tar"], [None, None], ("a.tar", "b.tar"), "shard"),
        (["a.png", "b.png"], [None, None], ("a.png", "b.png"), "file"),
        (["t.jsonl", "t.jsonl"], [3, 9], ("t.jsonl at byte 3", "t.jsonl at byte 9"), "place"),
    ],
)
def test_places_without_keys(shards: list[str], offsets: list[int | None], places: tuple[str, ...], noun: str) -> None:
    found = [
        Finding(JsonlFiles.E403, "m", shard=shard, offset=offset) for shard, offset in zip(shards, offsets, strict=True)
    ]
    [group] = group_findings(found)
    assert (group.places, group.noun) == (places, noun)
