"""``energon embed``, and the commands that compare samples by its columns."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.make_dataset import write_shard
from tests.cli.make_mix import write_mix
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import ENTER, TerminalRun
from tests.source_tree import ROOT

SAMPLES = 12
COPIES = {5: 0, 9: 1}  # sample → the one that it is a smaller copy of


def scene(number: int) -> Image.Image:
    """Soft shapes, different for each number."""
    random = np.random.default_rng(number)
    small = random.integers(256, size=(12, 12, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((240, 180), Image.Resampling.BICUBIC)


def jpeg(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=85)
    return file.getvalue()


@pytest.fixture
def pictures(tmp_path: Path, energon: RunEnergon) -> Path:
    """Twelve samples in three shards, a split part each; two pictures are smaller copies, and one sample has none."""
    folder = tmp_path / "pictures"
    for shard in range(3):
        samples = {}
        for number in range(4 * shard, 4 * shard + 4):
            picture = scene(COPIES.get(number, number))
            data = jpeg(picture.resize((120, 90)) if number in COPIES else picture)
            text = f"a caption of some length about scene {COPIES.get(number, number)}"
            parts = {"txt": text.encode(), "json": json.dumps({"caption": text}).encode()}
            samples[f"{number:06d}"] = parts | ({} if number == 11 else {"jpg": data})
        write_shard(folder / f"shard_{shard:03d}.tar", samples)
    done = energon("prepare", folder, "--non-interactive", "--split-ratio", "1,1,1")
    assert done.code == 0, done.err
    return folder


def key(number: int) -> str:
    return f"shard_{number // 4:03d}.tar/{number:06d}"


def test_hashes_find_copies_in_all_commands(pictures: Path, energon: RunEnergon) -> None:
    done = energon("embed", pictures, "--model", "phash")
    assert done.code == 0, done.err
    assert "wrote column phash: 11 vectors of jpg" in done.out
    assert "1 sample got no vector: there is no jpg" in done.err
    assert f"energon stats {pictures} --near-duplicates phash" in done.err
    # Groups.
    done = energon("stats", pictures, "--near-duplicates", "phash")
    assert done.code == 1
    assert "4 samples in 2 groups of near-duplicates (similarity 0.78)" in done.out
    assert f"{key(0)}, {key(5)}" in done.out
    document = energon("stats", pictures, "--near-duplicates", "phash", "--threshold", "0.7", "--json").json
    assert document["groups"] == [[key(0), key(5)], [key(1), key(9)]]
    assert (document["samples"], document["threshold"], document["metric"]) == (11, 0.7, "hamming")
    assert energon("stats", pictures, "--near-duplicates", "phash", "--where", "shard == 'shard_000.tar'").code == 0
    # Leaks of the split.
    done = energon("split", pictures, "--check", "--near", "phash")
    assert done.code == 1
    assert "2 of 10 groups of near-duplicates are in several parts, with 4 samples" in done.out
    # Neighbours.
    lines = energon("get", pictures, "--like", key(9), "--column", "phash", "-k", "3", "--json").out.splitlines()
    assert len(lines) == 3
    assert json.loads(lines[0])["key"] == key(1)
    assert json.loads(lines[0])["similarity"] > 0.9
    assert "sample" in energon("get", pictures, "--like", "000009", "--column", "phash").out
    # Exclusion.
    done = energon("exclude", pictures, "--near-duplicates", "phash", "--json")
    assert done.json["examples"] == [key(5), key(9)]
    assert "near-duplicates by phash" in energon("exclude", pictures, "--list").out
    assert energon("exclude", pictures, "--near-duplicates", "phash", "--json").json["samples"] == 0
    assert energon("split", pictures, "--check", "--near", "phash").code == 0


def many_alike(folder: Path, energon: RunEnergon, *, different: int, alike: int) -> Path:
    """Different pictures in one shard, and many equal ones in another, with their hashes."""
    groups = {"a": range(different), "b": [999] * alike}
    for shard, numbers in groups.items():
        write_shard(folder / f"{shard}.tar", {f"{n:04d}": {"jpg": jpeg(scene(s))} for n, s in enumerate(numbers)})
    assert energon("prepare", folder, "--non-interactive", "--split-ratio", "1").code == 0
    assert energon("embed", folder, "--model", "phash").code == 0
    return folder


def test_very_many_near_duplicates_are_excluded_only_on_request(tmp_path: Path, energon: RunEnergon) -> None:
    # 3 of 9 samples are more than a fifth, and 102 of 523 are not, but are one group.
    few = many_alike(tmp_path / "few", energon, different=5, alike=4)
    group = many_alike(tmp_path / "group", energon, different=421, alike=102)
    search = ("--near-duplicates", "phash")
    for folder, message, enough in (
        (few, "near-duplicates of others: 3 of 9 samples; the largest group has 4", "0.34"),
        (group, "near-duplicates of others: 101 of 523 samples; the largest group has 102", "0.2"),
    ):
        done = energon("exclude", folder, *search)
        assert (done.code, message in done.err, f"--max-share {enough}" in done.err) == (1, True, True), done.err
        assert "would exclude" in energon("exclude", folder, *search, "--dry-run").err
        assert energon("exclude", folder, *search, "--max-share", "0.1").code == 1
        assert "the split excludes 0 samples" in energon("exclude", folder, "--list").out
        done = energon("exclude", folder, *search, "--max-share", enough, "--json")
        assert f"{done.json['samples']} of" in message
    # A person is asked.
    energon("exclude", few, "--undo")
    for answer, code, excluded in (("n", 1, "0 samples"), ("y", 0, "3 samples")):
        with TerminalRun("exclude", few, *search, columns=150) as run:
            assert run.wait_for("Exclude them? [y/N]").press(answer, ENTER).finish() == code
        assert f"the split excludes {excluded}" in energon("exclude", few, "--list").out
    assert energon("exclude", few, "0001", "--max-share", "0.5").code == 2


def test_the_datasets_of_a_mix_are_compared_with_each_other(tmp_path: Path, energon: RunEnergon) -> None:
    # In the val part of b, 4 has the picture of sample 1 of a's train part, and 5 a smaller copy of sample 2.
    bytes_of = {("b", 4): jpeg(scene(1)), ("b", 5): jpeg(scene(2).resize((120, 90)))}
    for name, first in (("a", 0), ("b", 10)):
        for shard in range(2):
            numbers = range(3 * shard, 3 * shard + 3)
            parts = {f"{n:04d}": {"jpg": bytes_of.get((name, n), jpeg(scene(first + n)))} for n in numbers}
            write_shard(tmp_path / name / f"{shard}.tar", parts)
        assert energon("prepare", tmp_path / name, "--non-interactive", "--split-ratio", "1,1").code == 0
        assert energon("embed", tmp_path / name, "--model", "phash").code == 0
    both = [{"weight": 1, "path": "a"}, {"weight": 1, "path": "b"}]
    mix = write_mix(tmp_path, train=both, val=both)
    equal, similar = ["a/0.tar/0001", "b/1.tar/0004"], ["a/0.tar/0002", "b/1.tar/0005"]
    # Statistics.
    done = energon("stats", mix, "--duplicates")
    assert (done.code, f"  {', '.join(equal)}" in done.out) == (1, True)
    assert "2 samples of different datasets in 1 group with the same part jpg" in done.out
    document = energon("stats", mix, "--duplicates", "--json").json
    assert (document["duplicates"], [each["duplicates"] for each in document["datasets"]]) == ([equal], [[], []])
    done = energon("stats", mix, "--near-duplicates", "phash", "--json")
    assert (done.code, done.json["groups"], done.json["samples"]) == (1, [equal, similar], 12)
    assert "2 groups of near-duplicates" in energon("stats", mix, "--near-duplicates", "phash").out
    # Splits.
    done = energon("split", mix, "--check")
    assert (done.code, done.out.splitlines()[0]) == (1, "a/0.tar/0001: train 1, val 1")
    leaks = energon("split", mix, "--check", "--near", "phash", "--json").json["leaks"]
    assert [leak["group"] for leak in leaks] == [equal[0], similar[0]]
    # What subsets and exclusions leave out is no leak; the same samples in two splits are.
    half = {"path": "b", "split_part": "val", "subset": {"range": [0, 1]}}
    assert energon("split", write_mix(tmp_path, "some.yaml", train={"path": "a"}, val=half), "--check").code == 0
    whole = write_mix(tmp_path, "whole.yaml", train={"path": "b", "split_part": "val"}, val=half)
    assert "1 sample is in several parts" in energon("split", whole, "--check").out
    assert energon("exclude", tmp_path / "b", "1.tar/0004").code == 0
    assert energon("split", mix, "--check").code == 0


def test_minhash_compares_texts(pictures: Path, energon: RunEnergon) -> None:
    for part, options in (("txt", []), ("json[caption]", ["--part", "json[caption]"])):
        facts = energon("embed", pictures, "--model", "minhash", "--write", "words", *options, "--json").json
        assert (facts["column"], facts["part"], facts["metric"], facts["samples"]) == ("words", part, "jaccard", 12)
        groups = energon("stats", pictures, "--near-duplicates", "words", "--threshold", "1", "--json").json["groups"]
        assert groups == [[key(0), key(5)], [key(1), key(9)]]


def test_a_model_of_the_working_folder_embeds_pictures(
    pictures: Path, tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny_model.py").write_text(
        "import numpy as np, torch\n"
        "class Tiny:\n"
        "    def __init__(self):\n"
        "        torch.manual_seed(0)\n"
        "        self.network = torch.nn.Linear(64 * 3, 16, bias=False)\n"
        "    def __call__(self, pictures):\n"
        "        small = [np.asarray(picture.resize((8, 8)), np.float32).ravel() - 128 for picture in pictures]\n"
        "        return self.network(torch.from_numpy(np.stack(small)))\n"
    )
    monkeypatch.chdir(tmp_path)
    done = energon("embed", pictures, "--model", "tiny_model:Tiny", "--write", "tiny", "--batch-size", "5")
    assert done.code == 0, done.err
    record = json.loads((pictures / ".nv-meta" / "columns" / "tiny.json").read_text())
    assert (record["metric"], record["model"], record["length"]) == ("cosine", "tiny_model:Tiny", 16)
    groups = energon("stats", pictures, "--near-duplicates", "tiny", "--threshold", "0.98", "--json").json["groups"]
    assert groups == [[key(0), key(5)], [key(1), key(9)]]


def test_usage_that_is_wrong_is_refused(pictures: Path, energon: RunEnergon) -> None:
    assert energon("stats", pictures, "--threshold", "0.5").code == 2
    assert energon("stats", pictures, "--near-duplicates", "phash", "--threshold", "0").code == 2
    assert energon("exclude", pictures, "000001", "--threshold", "0.5").code == 2
    assert energon("split", pictures, "--near", "phash", "--split-ratio", "1,1").code == 2
    assert energon("get", pictures, "--like", "000001").code == 2
    assert energon("get", pictures, "000001", "--like", "000001", "--column", "phash").code == 2
    assert "Missing PATH" in energon("get", pictures).err
    done = energon("stats", pictures, "--near-duplicates", "phash")
    assert done.code == 1
    assert "energon embed" in done.err
    # A model that cannot be loaded is no fault of the samples.
    done = energon("embed", pictures, "--model", "torchvision:resnet18")
    assert done.code == 1
    assert "samples failed" not in done.err
    assert "hint: install it: pip install torchvision" in done.err or "hint: name their file: NAME@FILE" in done.err
    energon("embed", pictures, "--model", "phash")
    done = energon("get", pictures, "--like", "000011", "--column", "phash")
    assert done.code == 1
    assert "has no vector" in done.err


def test_the_code_of_the_how_to_runs(pictures: Path, energon: RunEnergon) -> None:
    energon("embed", pictures, "--model", "phash")
    page = (ROOT / "docs" / "how-to" / "find-near-duplicates.md").read_text("utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(code.replace("my_dataset", str(pictures)).replace("sample=17", "sample=0"), {})
    lines = printed.getvalue().splitlines()
    assert lines[0].startswith(key(5))
    assert lines[3:] == [str([key(0), key(5)]), str([key(1), key(9)])]
