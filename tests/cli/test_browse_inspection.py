"""``energon browse``: conditions, findings, training order, statistics, tensors and tags of its pages."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from energon_cli.main import main
from loader import WorkerConfig, get_savable_loader, get_train_dataset
from tests.cli.make_dataset import caption_parts, picture, write_captions
from tests.cli.test_browse import Site, serve

BROKEN = 7
MIX = """
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  train:
    blend:
      - {weight: 3, path: one}
      - {weight: 1, path: two}
"""


def width(number: int) -> int:
    return 40 + number * 7 % 60


def parts(number: int) -> dict[str, bytes]:
    array = io.BytesIO()
    np.save(array, np.arange(200, dtype=np.float32) + number)
    language = "de" if number % 4 == 0 else "en"
    return {
        **caption_parts(number),
        "jpg": b"no picture" if number == BROKEN else picture(number, size=(width(number), 30)),
        "json": json.dumps({"lang": language, "my_score": number}).encode(),
        "npy": array.getvalue(),
        "pkl.npy": b"\x93NUMPY\x01\x00" + bytes(20),
    }


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mix")
    for name in ("one", "two"):
        write_captions(folder / name, samples=5, parts=parts)
        assert main(["prepare", str(folder / name), "--non-interactive", "--split-ratio", "1,0,0"]) == 0
    (folder / "mix.yaml").write_text(MIX)
    return folder / "mix.yaml"


@pytest.fixture(scope="module")
def site(mix: Path) -> Iterator[Site]:
    yield from serve(mix, "--edit")


def get(site: Site, path: str, **query: Any) -> Any:
    status, _, data = site.get(f"{path}?{urlencode(query)}")
    assert status == 200, data
    return json.loads(data)


def search(site: Site, kind: str, text: str) -> dict[int, str | None]:
    query = urlencode({"in": kind, "text": text})
    lines = site.get(f"/api/d/0/search?{query}")[2].decode().splitlines()
    return {row["n"]: row["note"] for line in lines for row in json.loads(line)["rows"]}


@pytest.mark.parametrize("name", ["width", "jpg_width"])
def test_a_condition_without_columns_reads_the_headers(site: Site, name: str) -> None:
    assert get(site, "/api/d/0/rows", where=f"{name} < 60") == {"scan": True}
    expected = [number for number in range(20) if width(number) < 60 and number != BROKEN]
    assert list(search(site, "where", f"{name} < 60")) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('json_lang == "de"', [0, 4, 8, 12, 16]),
        ("json_my_score >= 17", [17, 18, 19]),
        ('size("jpg") < 11', [BROKEN]),
        ("txt_words == 3 and json_my_score == 1", [1]),
    ],
)
def test_conditions_on_fields_sizes_and_texts(site: Site, condition: str, expected: list[int]) -> None:
    assert list(search(site, "where", condition)) == expected


@pytest.mark.parametrize("condition", ["nothing < 3", "__import__('os')", "width <", "width < 'a'"])
def test_an_invalid_condition_is_answered_with_its_fault(site: Site, condition: str) -> None:
    status, _, data = site.get(f"/api/d/0/search?{urlencode({'in': 'where', 'text': condition})}")
    assert status == 422
    assert json.loads(data)["fault"]


def test_a_search_for_findings_names_the_rule_and_so_does_the_page(site: Site) -> None:
    found = search(site, "findings", "e302")
    assert BROKEN in found
    assert (found[BROKEN] or "").startswith("E302: ")
    assert search(site, "findings", "E1") == {}
    on_page = get(site, f"/api/d/0/{BROKEN}/findings")
    assert ("E302", "jpg") in [(one["code"], one["part"]) for one in on_page]


def test_the_training_order_is_that_of_a_real_run(site: Site, mix: Path) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    arguments: dict[str, Any] = {"batch_size": 3, "shuffle_buffer_size": 5, "max_samples_per_sequence": 4}
    dataset = get_train_dataset(str(mix), worker_config=config, part_filter=["txt"], **arguments)
    with get_savable_loader(dataset) as loader:
        batches = iter(loader)
        expected = [key for _ in range(6) for key in next(batches)["__key__"]]
    rows = get(site, "/api/training", step=2, count=12, **arguments)["rows"]
    assert [f"{row['shard']}/{row['key']}" for row in rows] == expected[6:]
    assert [(row["step"], row["position"]) for row in rows[2:5]] == [(2, 2), (3, 0), (3, 1)]
    assert {row["d"] for row in get(site, "/api/training", count=60)["rows"]} == {0, 1}


def test_a_rank_shows_its_own_steps(site: Site) -> None:
    both = get(site, "/api/training", ranks=2, batch_size=2, count=40)["rows"]
    second = get(site, "/api/training", ranks=2, batch_size=2, rank=1, count=20)["rows"]
    assert second == [row for row in both if row["rank"] == 1]
    assert site.get("/api/training?ranks=2&rank=2")[0] == 422


def test_a_histogram_of_a_tensor_counts_its_numbers_and_damage_is_a_fault(site: Site) -> None:
    (array,) = get(site, "/api/d/0/3/tensors", part="npy")
    assert array["shape"] == [200]
    assert sum(bar["count"] for bar in array["bars"]) == 200
    assert (array["bars"][0]["low"], array["bars"][-1]["high"]) == (3.0, 202.0)
    (damaged,) = get(site, "/api/d/0/3/tensors", part="pkl.npy")
    assert "fault" in damaged
    assert site.get("/api/d/0/3/tensors?part=nothing")[0] == 404


def test_each_bar_of_the_statistics_finds_as_many_samples_as_it_counts(site: Site) -> None:
    report = get(site, "/api/d/0/stats")
    for name in ("jpg.width", "json.my_score", "txt.bytes"):
        one = report["numbers"][name]
        for place, bar in enumerate(one["histogram"]):
            upper = "<=" if place == len(one["histogram"]) - 1 else "<"
            condition = f"{one['term']} >= {bar['low']} and {one['term']} {upper} {bar['high']}"
            if bar["count"]:
                page = get(site, "/api/d/0/rows", where=condition)
                found = len(search(site, "where", condition)) if page.get("scan") else page["total"]
                assert found == bar["count"], condition
    assert report["texts"]["json.lang"]["term"] == "json[lang]"


def test_the_tree_has_the_leaves_with_their_weights(site: Site) -> None:
    (tree,) = get(site, "/api/catalogue")["trees"]
    (split,) = tree["children"]
    (blend,) = split["children"]
    assert (tree["kind"], split["name"], blend["kind"]) == ("metadataset", "train", "blend")
    assert [(leaf["name"], leaf["weight"], leaf["datasets"]) for leaf in blend["children"]] == [
        ("one", 0.75, [0]),
        ("two", 0.25, [1]),
    ]


def test_tags_are_a_column_that_conditions_find(site: Site, mix: Path) -> None:
    def tag(name: str, *keys: str) -> Any:
        body = json.dumps({"keys": keys, "tag": name})
        assert site.get("/api/d/1/tag", method="POST", body=body)[0] == 403
        status, _, data = site.get("/api/d/1/tag", method="POST", body=body, X_Energon="1")
        return json.loads(data)["samples"] if status == 200 else status

    assert tag("odd", "shard_000.tar/000001", "shard_000.tar/000003") == 2
    assert tag("bad", "shard_000.tar/000003") == 1
    assert tag("x" * 81, "shard_000.tar/000001") == 422
    rows = get(site, "/api/d/1/rows", where='tag == "odd"')
    assert [row["key"] for row in rows["rows"]] == ["000001"]
    assert get(site, "/api/d/1/facets")["tags"] == ["odd", "bad"]
    assert (mix.parent / "two" / ".nv-meta" / "columns" / "tag.npy").exists()
    assert tag("", "shard_000.tar/000001") == 0
    assert get(site, "/api/d/1/rows", where='tag == "odd"')["total"] == 0
