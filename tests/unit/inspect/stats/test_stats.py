"""Statistics are those of a loop over all samples; broken parts are counted, and never end a run."""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import shutil
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from loader.dataset.opening import folder_at
from loader.dataset.query import SampleQuery, find_samples
from loader.errors import ConfigError, TrustError
from loader.format.columns.column_files import open_column, write_column, write_map_column
from loader.format.dataset_ref import DatasetRef
from loader.format.jsonl.index import prepare_jsonl
from loader.inspect.browse.search import statistics as browse_statistics
from loader.inspect.stats import (
    Distribution,
    StatsReport,
    StatsRequest,
    TopValues,
    collect_stats,
    html_report as page_of,
)
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from loader.storage import open_parent
from tests.e2e.dataset_tree import shard_path, write_shard
from tests.tables import write_lines

COUNT = 60


def picture(number: int) -> bytes:
    file = io.BytesIO()
    mode, kind = [("RGB", "JPEG"), ("L", "PNG"), ("RGBA", "WEBP")][number % 3]
    Image.new(mode, (20 + number, 30)).save(file, kind)
    return file.getvalue()


def sample(number: int) -> dict[str, bytes]:
    name = ["jpg", "png", "webp"][number % 3]
    document = {
        "score": number / 7,
        "lang": "de" if number % 5 else "en",
        "deep": {"n": number},
        "tags": ["a"] * number,
    }
    if number % 4 == 0:
        del document["score"]
    return {
        "jpg" if name == "jpg" else name: picture(number),
        "txt": f"word {'x ' * number}".encode(),
        "json": json.dumps(document).encode(),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stats") / "ds"
    for shard in range(4):
        write_shard(shard_path(path, shard), {f"{n:04}": sample(n) for n in range(15 * shard, 15 * shard + 15)})
    run_prepare(PreparePlan(path=str(path), split=SplitRequest(ratio={"train": 1.0, "val": 1.0})))
    return path


def collect(path: Path, *, trust_code: bool = False, **options: Any) -> StatsReport:
    return collect_stats(StatsRequest(ref=DatasetRef(str(path), trust_code=trust_code), **options))


def check(found: Distribution, expected: list[float]) -> None:
    assert found.count == len(expected)
    assert (found.minimum, found.maximum) == (min(expected), max(expected))
    assert found.mean == pytest.approx(statistics.fmean(expected))
    assert found.deviation == pytest.approx(statistics.stdev(expected))
    assert sum(count for *_, count in found.histogram()) == len(expected)


@pytest.mark.parametrize("workers", [1, 2])
def test_values_are_those_of_a_loop(folder: Path, workers: int) -> None:
    report = collect(folder, workers=workers)
    samples = [sample(number) for number in range(COUNT)]
    numbers = [*range(COUNT)]
    assert (report.samples, report.population, report.broken_count) == (COUNT, COUNT, 0)
    check(report.numbers["jpg.width"], [20 + number for number in numbers if number % 3 == 0])
    check(report.numbers["webp.aspect"], [(20 + number) / 30 for number in numbers if number % 3 == 2])
    check(report.numbers["txt.chars"], [len(parts["txt"]) for parts in samples])
    check(report.numbers["txt.words"], [len(parts["txt"].split()) for parts in samples])
    check(report.numbers["json[score]"], [number / 7 for number in numbers if number % 4])
    check(report.numbers["json[deep][n]"], [*map(float, numbers)])
    check(report.numbers["json[tags].length"], [*map(float, numbers)])
    check(report.numbers["bytes"], [sum(map(len, parts.values())) for parts in samples])
    assert dict(report.texts["json[lang]"].most_common()) == Counter("de" if n % 5 else "en" for n in numbers)
    assert dict(report.texts["png.mode"].most_common()) == {"L": 20}
    assert json.loads(json.dumps(report.document()))["numbers"]["jpg.width"]["count"] == 20


@pytest.mark.parametrize("seed", range(5))
def test_a_distribution_in_pieces_is_that_of_all_numbers(seed: int) -> None:
    draw = random.Random(seed)
    values = [draw.choice([0.0, draw.gauss(0, 5), draw.lognormvariate(5, 3), -draw.random()]) for _ in range(2000)]
    found = Distribution()
    start = 0
    while start < len(values):
        size = draw.randrange(1, 300)
        found.add(np.array([*values[start : start + size], math.nan, math.inf]))
        start += size
    check(found, values)
    for share in (0.05, 0.5, 0.95):
        exact = sorted(values)[math.ceil(share * len(values)) - 1]
        assert found.quantile(share) == pytest.approx(exact, rel=0.09, abs=1e-6)
    edges = [edge for low, high, count in found.histogram() if count for edge in (low, high)]
    assert edges == sorted(edges)


def test_an_estimate_holds_the_true_mean_in_most_draws() -> None:
    values = np.random.default_rng(3).lognormal(2, 0.6, 4000)
    held = 0
    for seed in range(200):
        found = Distribution()
        found.add(np.random.default_rng(seed).choice(values, 400, replace=False))
        low, high = found.mean_interval(len(values))
        held += low <= values.mean() <= high
    assert 180 <= held <= 199


def test_only_some_texts_are_counted_and_the_rest_together() -> None:
    found = TopValues()
    found.add({f"{number}": 1 for number in range(25_000)})
    found.add({"7": 3})
    assert (found.count, found.distinct, found.others) == (25_003, 20_000, 5_000)
    assert [*found.most_common(1)] == [("7", 4)]


def test_a_random_sample_is_a_part_and_says_so(folder: Path) -> None:
    report = collect(folder, sample=20)
    assert (report.samples, report.population, report.is_sampled) == (20, COUNT, True)
    low, high = report.document()["numbers"]["bytes"]["mean_95"]
    assert low < report.numbers["bytes"].mean < high


def test_a_query_and_parts_limit_what_is_read(folder: Path) -> None:
    report = collect(folder, query=SampleQuery(where="has('png')"), parts=("png",))
    assert report.samples == 20
    assert {name.partition(".")[0] for name in report.numbers} == {"png", "bytes"}


def test_columns_hold_the_values_and_are_conditions(folder: Path) -> None:
    report = collect(folder, write=("jpg.width", "json.lang", "json.score", "txt.chars"), workers=2)
    assert report.written == ["jpg_width", "json_lang", "json_score", "txt_chars"]
    opened = folder_at(folder)

    def values(name: str) -> list[Any]:
        column = open_column(opened.storage, opened.index, name)
        return [column.value(number) for number in range(COUNT)]

    assert values("jpg_width") == [20 + number if number % 3 == 0 else None for number in range(COUNT)]
    assert values("json_lang") == ["de" if number % 5 else "en" for number in range(COUNT)]
    assert values("json_score") == [number / 7 if number % 4 else None for number in range(COUNT)]
    assert values("txt_chars") == [5 + 2 * number for number in range(COUNT)]
    found = find_samples(opened, SampleQuery(where="jpg_width > 60 and json_lang == 'de'"))
    assert found.tolist() == [number for number in range(41, COUNT) if number % 3 == 0 and number % 5]


def test_columns_of_other_commands_are_values_of_the_samples(folder: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / "ds"))
    dataset = folder_at(copied)
    every = np.ones(COUNT, np.bool_)
    blocks = [([f"text {number % 7}" for number in range(COUNT)], np.arange(COUNT) % 2 == 0)]
    write_map_column(dataset.storage, dataset.index, "label", None, blocks, made_by="energon map")
    write_map_column(dataset.storage, dataset.index, "and", np.dtype("f4"), [(np.arange(COUNT) / 4, every)])
    vectors = [(np.ones((COUNT, 2), np.float32), every)]
    write_map_column(dataset.storage, dataset.index, "vector", np.dtype("f4"), vectors, length=2)
    write_column(dataset.storage, dataset.index, "stale", np.arange(COUNT))
    copied.joinpath(".nv-meta/columns/stale.npy").write_bytes(b"")
    collect(copied, write=("txt.chars",))
    report = collect(copied, query=SampleQuery(split_parts=["train"]))
    assert report.samples == COUNT // 2
    check(report.numbers["and"], [number / 4 for number in range(COUNT // 2)])
    assert (report.texts["label"].count, report.texts["label"].distinct) == (COUNT // 4, 7)
    assert not {"vector", "stale", "txt_chars"} & {*report.numbers, *report.texts}
    assert "and" not in collect(copied, parts=("txt",)).numbers
    document = browse_statistics(DatasetRef(str(copied)), None, COUNT)
    assert (document["numbers"]["and"]["count"], document["texts"]["label"]["term"]) == (COUNT, "label")


def test_a_value_that_one_part_has_needs_no_name_of_the_part(folder: Path) -> None:
    assert collect(folder, write=("chars",)).written == ["chars"]
    with pytest.raises(ConfigError, match=r"several values are called 'width': jpg.width, png.width, webp.width"):
        collect(folder, write=("width",))
    with pytest.raises(ConfigError, match="no sample has the value 'nothing'"):
        collect(folder, write=("nothing",))
    with pytest.raises(ConfigError, match="no sample has the value 'tokens'") as caught:
        collect(folder, write=("tokens",))
    assert caught.value.hint is not None
    assert "--tokenizer" in caught.value.hint
    with pytest.raises(ConfigError, match="a column needs a value of every sample"):
        collect(folder, write=("chars",), sample=5)


def saved(image: Image.Image, file_format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return file.getvalue()


def test_traits_of_pictures_are_values_and_columns(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    greys = [Image.new("L", (4, 2), grey) for grey in (0, 9, 99)]
    samples = {
        "0": {"jpg": saved(Image.new("RGB", (4, 2)), "JPEG", exif=turned)},
        "1": {"jpg": saved(Image.new("CMYK", (4, 2)), "JPEG")},
        "2": {"png": saved(Image.fromarray(np.full((2, 2), 40_000, np.uint16)), "PNG")},
        "3": {"png": saved(Image.new("RGBA", (4, 2)), "PNG")},
        "4": {"gif": saved(greys[0], "GIF", save_all=True, append_images=greys[1:])},
    }
    write_shard(shard_path(tmp_path, 0), samples)
    run_prepare(PreparePlan(path=str(tmp_path), split=SplitRequest(ratio={"train": 1.0})))
    report = collect(tmp_path, write=("jpg.orientation", "gif.frames", "png.alpha"))
    assert report.numbers["jpg.orientation"].maximum == 6
    assert report.numbers["png.bits"].maximum == 16
    assert report.numbers["gif.frames"].maximum == 3
    assert dict(report.texts["png.alpha"].most_common(2)) == {"false": 1, "true": 1}
    assert "CMYK" in dict(report.texts["jpg.mode"].most_common(2))
    assert report.written == ["jpg_orientation", "gif_frames", "png_alpha"]


def test_broken_parts_are_named_and_the_rest_is_counted(tmp_path: Path) -> None:
    good = sample(0)
    samples: dict[str, dict[str, bytes]] = {
        "good": good,
        "picture": good | {"jpg": b"<!DOCTYPE html>"},
        "cut": good | {"jpg": good["jpg"][:30]},
        "empty": good | {"jpg": b""},
        "json": good | {"json": b"{"},
        "text": good | {"txt": b"\xff\xfe"},
        "deep": good | {"json": b"[" * 100_000},
        "nan": good | {"json": b'{"score": NaN}'},
    }
    write_shard(shard_path(tmp_path, 0), samples)
    run_prepare(PreparePlan(path=str(tmp_path), split=SplitRequest(ratio={"train": 1.0})))
    report = collect(tmp_path)
    assert {(one.sample.rpartition("/")[2], one.part) for one in report.broken} == {
        ("picture", "jpg"),
        ("cut", "jpg"),
        ("empty", "jpg"),
        ("json", "json"),
        ("text", "txt"),
        ("deep", "json"),
    }
    assert report.broken_count == 6
    assert report.numbers["jpg.width"].count == 5
    assert report.numbers["bytes"].count == 8


@pytest.mark.parametrize("part", ["", "txt"])
def test_duplicates_are_grouped_by_content(tmp_path: Path, part: str) -> None:
    samples = {f"{number:02}": sample(number % 7 if number < 14 else number) for number in range(20)}
    for number in range(20):
        samples[f"{number:02}"] = {
            "jpg": samples[f"{number:02}"]["txt"],
            "txt": b"same" if number < 3 else b"%d" % number,
        }
    for shard in range(2):
        chosen = {key: parts for key, parts in samples.items() if int(key) % 2 == shard}
        write_shard(shard_path(tmp_path, shard), chosen)
    run_prepare(PreparePlan(path=str(tmp_path), split=SplitRequest(ratio={"train": 1.0})))
    report = collect(tmp_path, dedupe=part, workers=2)
    assert report.hashed_parts == (part or "jpg",)
    groups = [sorted(key.rpartition("/")[2] for key in group) for group in report.duplicates or []]
    if part:
        assert groups == [["00", "01", "02"]]
    else:
        assert sorted(groups) == [[f"{number:02}", f"{number + 7:02}"] for number in range(7)]
    with pytest.raises(ConfigError, match=r"no part 'jgp'; did you mean 'jpg'\?"):
        collect(tmp_path, dedupe="jgp")


def test_records_have_fields_too(tmp_path: Path) -> None:
    write_lines(tmp_path / "part_0.jsonl", [*range(10)])
    run_prepare(PreparePlan(path=str(tmp_path), split=SplitRequest(ratio={"train": 1.0})))
    report = collect(tmp_path, dedupe="")
    check(report.numbers["json[id]"], [*map(float, range(10))])
    assert report.duplicates == []


def test_tokens_are_counted_by_code_only_if_it_is_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrustError, match="textwrap:wrap is code"):
        collect(folder, tokenizer="textwrap:wrap")
    report = collect(folder, tokenizer="builtins:len", trust_code=True)
    check(report.numbers["txt.tokens"], [float(5 + 2 * number) for number in range(COUNT)])
    for name in ("builtins:nothing", "no_such_module:f", "nothing"):
        with pytest.raises(ConfigError):
            collect(folder, tokenizer=name, trust_code=True)


def test_a_page_shows_histograms_and_escapes_what_a_dataset_holds(tmp_path: Path) -> None:
    evil = '"><script>alert(1)</script>'
    samples = {f"{n}": sample(0) | {"json": json.dumps({evil: evil}).encode()} for n in range(5)}
    write_shard(shard_path(tmp_path, 0), samples | {"broken": {"jpg": b"<script>"}})
    run_prepare(PreparePlan(path=str(tmp_path), split=SplitRequest(ratio={"train": 1.0})))
    page = page_of(collect(tmp_path, dedupe=""))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count('src="data:image/jpeg;base64,') == 5
    assert "http://" not in page
    assert "https://" not in page
    assert "jpg.width" in page
    assert "<svg" in page


def test_compressed_texts_are_read_and_other_forms_are_not_taken_for_json(tmp_path: Path) -> None:
    packed = gzip.compress(b'{"caption": "a cat"}')
    good = {"json.gz": packed, "txt.gz": gzip.compress(b"one two"), "mp": b"\x81", "cbor": b"\xa0", "jpg.gz": b"x"}
    write_shard(shard_path(tmp_path, 0), {"good": good, "cut": {"json.gz": packed[:12]}, "plain": {"txt.gz": b"a"}})
    run_prepare(PreparePlan(path=str(tmp_path), split=SplitRequest(ratio={"train": 1.0})))
    report = collect(tmp_path)
    assert {one.sample.rpartition("/")[2] for one in report.broken} == {"cut", "plain"}
    assert report.numbers["json.gz[caption].chars"].maximum == 5
    assert report.numbers["txt.gz.words"].maximum == 2
    assert report.numbers["mp.bytes"].count == 1


def test_samples_without_the_part_are_no_duplicates(tmp_path: Path) -> None:
    samples = {f"{n}": {"jpg": sample(0)["jpg"]} if n < 2 else {"png": sample(n % 2 * 3 + 1)["txt"]} for n in range(6)}
    write_shard(shard_path(tmp_path, 0), samples | {"bare": {"txt": b"a"}, "bare_too": {"txt": b"a"}})
    run_prepare(PreparePlan(path=str(tmp_path), split=SplitRequest(ratio={"train": 1.0})))
    groups = [
        sorted(key.rpartition("/")[2] for key in group) for group in collect(tmp_path, dedupe="").duplicates or []
    ]
    assert sorted(groups) == [["0", "1"], ["2", "4"], ["3", "5"]]
    assert len(collect(tmp_path, dedupe="jpg").duplicates or []) == 1


def test_hostile_fields_are_bounded(tmp_path: Path) -> None:
    samples = {f"{n:04}": {"json": json.dumps({f"key{n}.{m}": m for m in range(20)}).encode()} for n in range(100)}
    write_shard(shard_path(tmp_path, 0), {"huge": {"json": b'{"n": 1' + b"0" * 4000 + b"}"}} | samples)
    run_prepare(PreparePlan(path=str(tmp_path), split=SplitRequest(ratio={"train": 1.0})))
    report = collect(tmp_path)
    assert len(report.numbers) == 1000
    assert report.is_cut
    assert not report.document()["complete"]
    assert report.numbers["json.bytes"].count == 101


def test_a_single_file_is_read_too(tmp_path: Path) -> None:
    prepare_jsonl(*open_parent(str(write_lines(tmp_path / "lines.jsonl", [*range(10)]))))
    check(collect(tmp_path / "lines.jsonl").numbers["json[id]"], [*map(float, range(10))])
    with pytest.raises(ConfigError, match="a single file has no columns"):
        collect(tmp_path / "lines.jsonl", write=("id",))


def test_tokens_are_counted_by_a_file_of_tokenizers(folder: Path, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "words.json"))
    report = collect(folder, tokenizer=str(tmp_path / "words.json"), workers=2)
    assert report.numbers["txt.tokens"].document() == report.numbers["txt.words"].document()
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ConfigError, match="cannot read this tokenizer"):
        collect(folder, tokenizer=str(tmp_path / "other.json"))
