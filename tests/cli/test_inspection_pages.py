"""The commands on the pages of inspection run, and print the lines that the pages show."""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loader import DataLoader, WorkerConfig, get_savable_loader, get_train_dataset
from loader.prepare.plan import SplitRequest
from tests.cli.make_dataset import picture, write_captions, write_shard
from tests.cli.make_mix import write_mix
from tests.cli.run_energon import RunEnergon
from tests.e2e.dataset_tree import prepare
from tests.e2e.text_dataset import CRUDE, write_texts
from tests.pages import blocks
from tests.source_tree import ROOT

OMITTED = "…"
NUMBER = re.compile(r"[0-9][0-9.,:TZ-]*")
HISTOGRAM = re.compile(r"[▁▂▃▄▅▆▇█]+")


def page(name: str) -> str:
    return (ROOT / "docs/commands" / f"{name}.md").read_text(encoding="utf-8")


def plain(line: str, folder: Path) -> str:
    """Remove what depends on the day and the pictures: numbers, histograms and the width of columns."""
    text = HISTOGRAM.sub("", NUMBER.sub("#", line.replace(str(folder), "/data")))
    return re.sub(r"#(, | )(?=#)", "# ", " ".join(text.replace("kB", "MB").split())).rstrip(",")


def check(name: str, folder: Path, energon: RunEnergon) -> int:
    """Run each command of a page; return their number."""
    shown = [
        (command, output.splitlines())
        for block in blocks(page(name), "console")
        for command, output in re.findall(r"^\$ energon (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE)
    ]
    for command, lines in shown:
        done = energon(*shlex.split(command))
        assert done.code in (0, 1), done.err
        assert "error:" not in done.err
        printed = [plain(line, folder) for line in (done.out + done.err).splitlines()]
        missing = [line for line in lines if line != OMITTED and plain(line, folder) not in printed]
        assert not missing, "\n".join([command, *printed])
    return len(shown)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # tables wrap long paths
        monkeypatch.chdir(short)
        yield Path(short)
        monkeypatch.undo()


def gray(size: tuple[int, int]) -> bytes:
    from io import BytesIO

    from PIL import Image

    buffer = BytesIO()
    Image.new("L", size, 128).save(buffer, "JPEG")
    return buffer.getvalue()


def write_my_dataset(folder: Path, energon: RunEnergon) -> None:
    """Write 200 pictures of many sizes, four of them gray, two of them wide; sample 17 has a short caption."""
    for shard in range(10):
        samples = {}
        for number in range(shard * 20, shard * 20 + 20):
            size = (2048 if number in (60, 61) else 30 + number, 20 + number)
            jpg = gray(size) if number < 4 else picture(number, size=size)
            samples[f"{number:06d}"] = {"jpg": jpg, "txt": b"cat" if number == 17 else b"a picture, %d" % number}
        write_shard(folder / f"my_dataset/shards/shard_{shard:03d}.tar", samples)
    assert energon("prepare", "my_dataset", "--non-interactive", "--split-ratio", "8,1,1").code == 0


def test_the_pages_of_stats_exclude_and_extract(folder: Path, energon: RunEnergon) -> None:
    write_my_dataset(folder, energon)
    assert check("stats", folder, energon) == 4
    write_captions(folder / "other", shards=1, samples=20)
    assert energon("prepare", "other", "--non-interactive", "--split-parts", "train:.*").code == 0
    write_mix(folder, train=[{"path": "my_dataset"}, {"path": "other"}])
    assert check("exclude", folder, energon) == 4
    assert check("extract", folder, energon) == 4


def test_the_page_of_explain_is_of_a_real_run(folder: Path, energon: RunEnergon) -> None:
    for name, samples in (("a", 1000), ("b", 20)):
        write_captions(folder / name, samples=samples)
        assert energon("prepare", name, "--non-interactive", "--split-parts", "train:.*").code == 0
    write_mix(folder, train=[{"weight": 3, "path": "a"}, {"weight": 1, "path": "b"}])
    for name, samples in (("captions", 800), ("documents", 1400), ("texts", 600)):
        write_texts(folder / name, train=(samples,), val=(1,))
    schedules = ({0: 3, 10_000: 1}, {0: 0, 10_000: 2}, 1)
    blend = [
        {"path": name, "weight": each} for name, each in zip(("captions", "documents", "texts"), schedules, strict=True)
    ]
    write_mix(folder, "curriculum.yaml", train=blend)
    assert check("explain", folder, energon) == 2
    exact = energon("explain", "mix.yaml", "--steps", 1000, "--batch-size", 4, "--world-size", 2).out
    for line in exact.replace(str(folder), "/data").splitlines():
        if line.startswith(("/data/", "1,000 steps", "48 lanes", "many epochs")):
            cells = line.split()[:6]
            assert any(shown.split()[: len(cells)] == cells for shown in page("explain").splitlines())


RANKS, STEPS = 4, 500


def run_loader(folder: Path, rank: int) -> DataLoader[Any]:
    """Return the loader of the run on the page of trace: batches of 2 samples, 4 ranks."""
    dataset = get_train_dataset(
        str(folder / "a"),
        worker_config=WorkerConfig(rank=rank, world_size=RANKS, num_workers=0),
        batch_size=2,
        shuffle_buffer_size=100,
        max_samples_per_sequence=100,
    )
    return get_savable_loader(dataset)


def write_run(folder: Path) -> None:
    """Write the dataset ``a`` of 2,000 texts and the checkpoint of a run after its 500th step."""
    for shard in range(20):
        numbers = range(100 * shard, 100 * shard + 100)
        write_shard(folder / f"a/shard_{shard:03}.tar", {f"{number:06}": {"txt": b"%d" % number} for number in numbers})
    prepare(folder / "a", split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": CRUDE})
    (folder / f"run/step_{STEPS}").mkdir(parents=True)
    for rank in range(RANKS):
        loader = run_loader(folder, rank)
        for _ in islice(loader, STEPS):
            pass
        path = folder / f"run/step_{STEPS}/rank{rank}.json"
        path.write_text(json.dumps(loader.save_state_rank()))


def test_the_page_of_trace_is_of_a_real_run(folder: Path, energon: RunEnergon) -> None:
    write_run(folder)
    text = page("trace")
    for block in blocks(text, "console"):
        for command, output in re.findall(r"^\$ energon (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE):
            done = energon(*shlex.split(command.replace("/data/", f"{folder}/")))
            assert done.code == 0, done.err
            assert done.out.replace(f"{folder}/", "/data/") == output
    loader = run_loader(folder, 3)
    names: dict[str, Any] = {
        "loader": loader,
        "state": json.loads((folder / f"run/step_{STEPS}/rank3.json").read_text()),
    }
    [code] = blocks(text, "python")
    exec(code, names)
    traced = re.search(r"--step (\d+) --rank 3\n((?:step.*\n)+)", text)
    assert traced is not None
    assert f"replay({traced[1]})" in code
    assert names["batch"]["__key__"] == re.findall(r"shard_\d+\.tar/\d+", traced[2])


def test_the_page_of_get_prints_and_writes_parts(folder: Path, energon: RunEnergon) -> None:
    captions = {17: b"a ginger cat looks at the camera\n", 18: b"two dogs\n"}
    for shard in range(2):
        samples = {
            f"{number:06}": {"jpg": picture(number, size=(200, 200)), "txt": captions.get(number, b"a picture\n")}
            for number in range(shard * 20, shard * 20 + 20)
        }
        write_shard(folder / f"my_dataset/shards/shard_{shard:03}.tar", samples)
    assert energon("prepare", "my_dataset", "--non-interactive", "--split-ratio", "1").code == 0
    assert check("get", folder, energon) == 5
    assert (folder / "cat.jpg").read_bytes() == picture(17, size=(200, 200))
    assert sorted(path.name for path in (folder / "both").iterdir()) == [
        f"00001{number}.{part}" for number in (7, 8) for part in ("jpg", "txt")
    ]
    assert [line for line in blocks(page("get"), "console")[0].splitlines() if line in ("two dogs", "a picture")]
