"""Shares of lint, stats and exclude, merged, print and write what one process does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from energon_cli.main import main
from loader.dataset.query import SampleQuery
from loader.engine import Engine, Share, ShareDone
from loader.format.dataset_ref import DatasetRef
from loader.inspect import ExcludeRequest, LintRequest, exclude, run_lint
from loader.inspect.stats import StatsRequest, collect_stats
from tests.cli.make_dataset import caption_parts, picture, write_captions, write_shard
from tests.cli.make_mix import write_datasets, write_mix
from tests.cli.run_energon import Done, RunEnergon

SHARES = 4


def hostile_parts(number: int) -> dict[str, bytes]:
    """Copies of pictures, values that JSON can hold and few formats can, and a picture that is none."""
    document: dict[str, Any] = {"lang": "de" if number % 3 else "en", "score": number / 7, "text": "\ud83d \ude00"}
    if number % 4 == 0:
        document["score"] = 10**40 if number % 8 else float("nan")
    parts = {"jpg": picture(number % 5), "txt": b"a text", "json": json.dumps(document).encode()}
    if number in (3, 7, 16):
        parts["jpg"] = b"<!DOCTYPE html>"
    if number == 9:
        parts["json"] = b"{"
    if number == 11:
        del parts["txt"]
    return parts


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven shards: three with broken samples, one with names that are no UTF-8, one truncated, one missing."""
    folder = write_captions(tmp_path_factory.mktemp("made") / "ds", shards=6, samples=4, parts=hostile_parts)
    write_shard(folder / "shard_006.tar", {f"\udcff{number}": caption_parts(number) for number in range(3)})
    fields = ["--sample-type", "CaptioningSample", "--field-map", '{"image": "jpg", "caption": "txt"}']
    assert main(["prepare", str(folder), "--non-interactive", "--split-ratio", "8,1,1", *fields]) == 0
    text = (folder / "shard_006.tar").read_bytes()
    (folder / "shard_006.tar").write_bytes(text.replace(b"\xff\xd8\xff", b"\0\0\0", 1))
    (folder / "shard_002.tar").write_bytes((folder / "shard_002.tar").read_bytes()[:3000])
    (folder / "shard_005.tar").unlink()
    (folder / ".nv-meta/split.yaml").write_text(
        (folder / ".nv-meta/split.yaml").read_text().replace("exclude: []", "exclude: [shard_000.tar/000003, x.tar/1]")
    )
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven shards with broken samples, copies, and names that are no UTF-8; every shard can be read."""
    folder = write_captions(tmp_path_factory.mktemp("whole") / "ds", shards=6, samples=4, parts=hostile_parts)
    broken = caption_parts(2) | {"jpg": b"no picture"}
    write_shard(folder / "shard_006.tar", {"\udcff1": caption_parts(1), "\udcff2": broken})
    assert main(["prepare", str(folder), "--non-interactive", "--split-ratio", "8,1,1"]) == 0
    return folder


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path], tuple[Path, Path]]:
    """Copy a dataset twice: into one folder that one process works on, and into one for shares."""

    def copy(folder: Path) -> tuple[Path, Path]:
        return (
            Path(shutil.copytree(folder, tmp_path / "one/ds")),
            Path(shutil.copytree(folder, tmp_path / "shares/ds")),
        )

    return copy


def in_shares(energon: RunEnergon, *arguments: object) -> Done:
    """Run all shares of a command, the last one first, and merge them."""
    for number in range(SHARES, 0, -1):
        done = energon(*arguments, "--share", f"{number}/{SHARES}")
        assert (done.code, "error" in done.err) == (0, False), done
        assert f"share {number}/{SHARES} is done" in done.out
    return energon(*arguments, "--merge")


def without_times(done: Done, folder: Path) -> tuple[int, str, str]:
    lines = [line for line in done.out.splitlines() if '"seconds"' not in line]
    return done.code, "\n".join(lines).replace(str(folder.parent), ""), done.err.replace(str(folder.parent), "")


def files(folder: Path) -> dict[str, bytes]:
    """Return the files of a dataset, without times of exclusions and locks."""
    contents = {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
    contents.pop(".nv-meta/.lock", None)
    journal = contents.pop(".nv-meta/exclude.json", None)
    if journal is not None:
        entries = json.loads(journal)
        contents["exclusions"] = repr([{**entry, "at": ""} for entry in entries["exclusions"]]).encode()
    return contents


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--level", "headers"),
        ("--level", "decode", "--split-parts", "train"),
        ("--max-findings", "4"),
        ("--max-findings", "9"),
        ("--fix",),
    ],
)
@pytest.mark.sampled(2)
def test_a_lint_in_shares_reports_what_one_process_does(
    made: Path, copied: Callable[[Path], tuple[Path, Path]], energon: RunEnergon, flags: tuple[str, ...]
) -> None:
    one, shared = copied(made)
    expected = energon("lint", one, "--json", *flags)
    merged = in_shares(energon, "lint", shared, "--json", *flags)
    assert without_times(merged, shared) == without_times(expected, one)
    assert expected.code == 1
    assert len(expected.json["findings"]) >= 3
    assert files(shared) == files(one)


def test_a_decode_of_several_pieces_of_a_shard_stops_at_the_same_finding(
    made: Path,
    copied: Callable[[Path], tuple[Path, Path]],
    energon: RunEnergon,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loader.lint.run._SAMPLES_AT_ONCE", 2)
    one, shared = copied(made)
    for most in range(1, 16, 2):
        expected = energon("lint", one, "--json", "--max-findings", most)
        merged = in_shares(energon, "lint", shared, "--json", "--max-findings", most)
        assert without_times(merged, shared) == without_times(expected, one)


@pytest.mark.parametrize(
    "flags",
    [
        ("--duplicates", "--write", "jpg.width,json[lang],bytes"),
        ("--limit", "9"),
        ("--where", "txt.chars > 2", "--parts", "jpg,json"),
    ],
)
def test_stats_in_shares_print_and_write_what_one_process_does(
    whole: Path, copied: Callable[[Path], tuple[Path, Path]], energon: RunEnergon, flags: tuple[str, ...]
) -> None:
    one, shared = copied(whole)
    expected = energon("stats", one, "--json", *flags)
    merged = in_shares(energon, "stats", shared, "--json", *flags)
    assert without_times(merged, shared) == without_times(expected, one)
    assert expected.json["numbers"]
    assert files(shared) == files(one)


@pytest.mark.parametrize("search", ["--lint", "--duplicates"])
@pytest.mark.parametrize("target", [(), ("--to-filter", "good")])
def test_an_exclusion_in_shares_excludes_what_one_process_does(
    whole: Path,
    copied: Callable[[Path], tuple[Path, Path]],
    energon: RunEnergon,
    search: str,
    target: tuple[str, ...],
) -> None:
    one, shared = copied(whole)
    expected = energon("exclude", one, search, "--json", *target)
    merged = in_shares(energon, "exclude", shared, search, "--json", *target)
    assert without_times(merged, shared) == without_times(expected, one)
    assert expected.json["samples"] > 2
    assert files(shared) == files(one)


def test_mixes_several_paths_and_files_of_samples_are_linted_in_shares(tmp_path: Path, energon: RunEnergon) -> None:
    datasets = write_datasets(tmp_path)
    mix = write_mix(datasets, train=[{"path": "a"}, {"path": "texts.jsonl"}], val={"path": "b"}, test={"path": "c"})
    expected = energon("lint", mix, datasets / "b", "--json")
    merged = in_shares(energon, "lint", mix, datasets / "b", "--json")
    assert without_times(merged, datasets / "b") == without_times(expected, datasets / "b")
    assert expected.json[0]["datasets"] == 3
    expected = energon("stats", datasets / "a", datasets / "b", "--json")
    merged = in_shares(energon, "stats", datasets / "a", datasets / "b", "--json")
    assert without_times(merged, datasets) == without_times(expected, datasets)
    mix = write_mix(datasets, train=[{"path": "a"}, {"path": "b"}])
    expected = energon("exclude", mix, "--lint", "--dry-run", "--json")
    merged = in_shares(energon, "exclude", mix, "--lint", "--dry-run", "--json")
    assert without_times(merged, datasets) == without_times(expected, datasets)


def test_a_mix_whose_findings_are_many_leaves_no_results_of_its_shares(tmp_path: Path, energon: RunEnergon) -> None:
    datasets = write_datasets(tmp_path)
    for shard in [*datasets.glob("a/*.tar"), *datasets.glob("b/*.tar")]:
        shard.write_bytes(shard.read_bytes()[:600])
    mix = write_mix(datasets, train=[{"path": "a"}, {"path": "b"}, {"path": "texts.jsonl"}])
    expected = energon("lint", mix, "--json", "--max-findings", 1)
    merged = in_shares(energon, "lint", mix, "--json", "--max-findings", 1)
    assert without_times(merged, datasets) == without_times(expected, datasets)
    assert (len(expected.json["findings"]), expected.json["complete"], expected.json["datasets"]) == (1, False, 1)
    assert not [*datasets.glob("*/.nv-meta/.jobs/*")]


def test_a_folder_of_lines_and_a_folder_of_media_are_linted_in_shares(tmp_path: Path, energon: RunEnergon) -> None:
    lines = tmp_path / "lines"
    lines.mkdir()
    for name in "abc":
        (lines / f"{name}.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    assert energon("prepare", lines, "--non-interactive", "--split-ratio", "1,1,1").code == 0
    for name in "bc":
        (lines / f"{name}.jsonl").write_text('{"text": "one"}\n{"tex": "two"]\n')
    media = tmp_path / "media"
    media.mkdir()
    for number in range(5):
        (media / f"{number}.jpg").write_bytes(picture(number))
    assert energon("prepare-media", "--media-metadata-by-extension", media).code == 0
    (media / "2.jpg").unlink()
    (media / "3.jpg").write_bytes(picture(3, size=(10, 10)))
    for folder in (lines, media):
        for flags in ((), ("--max-findings", 1)):
            expected = energon("lint", folder, "--json", *flags)
            merged = in_shares(energon, "lint", folder, "--json", *flags)
            assert without_times(merged, folder) == without_times(expected, folder)
            assert expected.json["findings"]
            assert expected.json["complete"] is (not flags)


def test_results_lie_in_the_meta_folder_and_vanish_with_the_merge(tmp_path: Path, energon: RunEnergon) -> None:
    data, meta = write_captions(tmp_path / "data"), tmp_path / "meta"
    assert energon("prepare", data, "--non-interactive", "--split-ratio", "1,1,1", "--meta-folder", meta).code == 0
    assert energon("lint", data, "--meta-folder", meta, "--share", "1/2").code == 0
    [job] = (meta / ".jobs").iterdir()
    assert job.name.startswith("lint-decode-")
    done = energon("lint", data, "--meta-folder", meta, "--merge")
    assert done.code == 1
    assert "share 2 of 2 is not complete" in done.err
    assert f"then merge again: energon lint {data} --meta-folder {meta} --share 2/2" in done.err
    assert energon("lint", data, "--meta-folder", meta, "--share", "2/2").code == 0
    assert energon("lint", data, "--meta-folder", meta, "--merge").code == 0
    assert not [*(meta / ".jobs").iterdir()]
    assert not (data / ".nv-meta").exists()
    assert "none was started with these options" in energon("lint", data, "--meta-folder", meta, "--merge").err


def test_shares_of_other_options_are_not_merged(whole: Path, tmp_path: Path, energon: RunEnergon) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "ds"))
    assert energon("stats", folder, "--share", "1/1").code == 0
    done = energon("stats", folder, "--duplicates", "--merge")
    assert done.code == 1
    assert "none was started with these options" in done.err
    done = energon("stats", folder, "--filter", "none", "--merge")
    assert done.code == 1
    done = energon("stats", folder, "-n", 5, "--share", "1/1")
    assert "with another choice of samples" in done.err
    assert energon("stats", folder, "-n", 5, "--share", "1/1", "--restart").code == 0
    assert "5 samples of 26" in energon("stats", folder, "-n", 5, "--merge").out
    assert energon("lint", folder, "--share", "1/1").code == 0
    text = (folder / ".nv-meta/dataset.yaml").read_text() if (folder / ".nv-meta/dataset.yaml").exists() else ""
    (folder / ".nv-meta/dataset.yaml").write_text(f"{text}\n# changed\n")
    done = energon("lint", folder, "--merge")
    assert "the shares were run with another split or dataset config" in done.err


@pytest.mark.parametrize("command", ["lint", "stats"])
def test_shares_of_data_without_an_index_are_refused(
    tmp_path: Path, energon: RunEnergon, command: str, captions: Path
) -> None:
    (tmp_path / "texts.jsonl").write_text('{"text": "one"}\n')
    assert energon("prepare", tmp_path / "texts.jsonl").code == 0
    for path in (captions, captions / "shard_000.tar", tmp_path / "texts.jsonl"):
        for flags in (("--share", "1/2"), ("--merge",)):
            done = energon(command, path, *flags)
            assert done.code == 1
            assert "the results of shares are kept in .nv-meta, and this data has none" in done.err
            assert "--meta-folder DIR" in done.err


def test_shares_of_an_exclusion_without_one_search_are_wrong_usage(prepared: Path, energon: RunEnergon) -> None:
    for flags in (("--list",), ("--undo",), ("shard_000.tar",), ("--lint", "--duplicates")):
        done = energon("exclude", prepared, *flags, "--share", "1/2")
        assert done.code == 2
        assert "--share and --merge are valid with --lint or --duplicates" in done.err
    done = energon("stats", prepared, "--near-duplicates", "phash", "--share", "1/2")
    assert done.code == 2
    assert "--near-duplicates reads one column, which is not divided into shares" in done.err


def test_a_dry_run_keeps_the_results_for_the_exclusion(whole: Path, tmp_path: Path, energon: RunEnergon) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "ds"))
    done = in_shares(energon, "exclude", folder, "--duplicates", "--dry-run")
    assert "would exclude 19 samples" in done.err
    assert "excluded 19 samples" in energon("exclude", folder, "--duplicates", "--merge").err
    assert not [*(folder / ".nv-meta/.jobs").iterdir()]


@pytest.fixture(scope="module")
def processes() -> Any:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def test_an_executor_gives_the_results_of_one_process(made: Path, whole: Path, processes: Executor) -> None:
    engine = Engine(executor=processes)
    for ref in (DatasetRef(str(made)), DatasetRef(str(whole))):
        expected = replace(run_lint(LintRequest(ref=ref)), seconds=0.0)
        assert expected.findings
        assert replace(run_lint(LintRequest(ref=ref, engine=engine)), seconds=0.0) == expected
    ref = DatasetRef(str(whole))
    report = collect_stats(StatsRequest(ref=ref, dedupe="", engine=engine))
    assert report.document() == collect_stats(StatsRequest(ref=ref, dedupe="")).document()
    for options in ({"lint": True}, {"duplicates": ""}):
        request = ExcludeRequest(ref=ref, query=SampleQuery(), dry_run=True, **options)
        assert exclude(replace(request, engine=engine)) == exclude(request)


def test_shares_on_an_executor_are_merged(whole: Path, tmp_path: Path, processes: Executor) -> None:
    ref = DatasetRef(str(shutil.copytree(whole, tmp_path / "ds")))
    for number in (1, 2):
        engine = Engine(executor=processes, share=Share(number, 2))
        with pytest.raises(ShareDone):
            run_lint(LintRequest(ref=ref, engine=engine))
        with pytest.raises(ShareDone):
            collect_stats(StatsRequest(ref=ref, engine=engine))
    merge = Engine(merge=True)
    expected = replace(run_lint(LintRequest(ref=ref)), seconds=0.0)
    assert replace(run_lint(LintRequest(ref=ref, engine=merge)), seconds=0.0) == expected
    merged = collect_stats(StatsRequest(ref=ref, engine=merge)).document()
    assert merged == collect_stats(StatsRequest(ref=ref)).document()
    merge.discard_merged()
    assert not [*(tmp_path / "ds/.nv-meta/.jobs").iterdir()]


@pytest.mark.slow
def test_a_dask_cluster_gives_the_results_of_one_process(
    whole: Path, copied: Callable[[Path], tuple[Path, Path]], energon: RunEnergon
) -> None:
    one, other = copied(whole)
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1") as dask:
        engine = ("--engine", "dask", "--address", dask.scheduler_address)
        for command, *flags in (
            ("lint",),
            ("lint", "--max-findings", 3),
            ("stats", "--duplicates", "--write", "jpg.width"),
            ("exclude", "--lint"),
            ("exclude", "--duplicates"),
        ):
            expected = energon(command, one, *flags, "--json")
            done = energon(command, other, *flags, "--json", *engine)
            assert without_times(done, other) == without_times(expected, one)
        assert energon("lint", other, "--share", "1/1", *engine).code == 0
        merged = energon("lint", other, "--merge", "--json")
    assert without_times(merged, other) == without_times(energon("lint", one, "--json"), one)
    assert files(other) == files(one)
