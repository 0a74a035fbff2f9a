"""The commands of the how-to "Find what is wrong with your data" find each planted fault, as the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from demo_faults import BROKEN, DUPLICATES, GERMAN

from loader import WorkerConfig, get_savable_loader, get_train_dataset
from tests.pages import blocks, put_energon_on_path
from tests.source_tree import ROOT

PAGE = (ROOT / "docs/how-to/find-what-is-wrong.md").read_text(encoding="utf-8")
TIME = re.compile(r"\d+\.\d s\b")
OMITTED = "…"


def shown_commands() -> Iterator[tuple[str, list[str]]]:
    """Yield each command line of the page, and the lines below it."""
    for block in blocks(PAGE, "console"):
        for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *output = text.rstrip().splitlines()
            yield line, output


def run(line: str, folder: Path) -> list[str]:
    line = re.sub(r"^python ", f"{sys.executable} ", line)
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    assert done.returncode in (0, 1), output
    return plain(output.replace(str(folder), "/data"))


def plain(output: str) -> list[str]:
    return [TIME.sub("0.1 s", line.rstrip()) for line in output.splitlines()]


def is_shown(shown: list[str], printed: list[str]) -> bool:
    """Check that lines were printed one after another, but for those instead of which there is an ellipsis."""
    pattern = "".join("(.*\n)*?" if line == OMITTED else re.escape(line) + "\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put_energon_on_path(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    return tmp_path


def test_each_command_of_the_page_prints_what_the_page_shows(folder: Path) -> None:
    used = set()
    for line, shown in shown_commands():
        printed = run(line, folder)
        assert is_shown(plain("\n".join(shown)), printed), f"$ {line}\n" + "\n".join(printed)
        used.add(line.split()[1])
    assert used >= {"lint", "rule", "get", "stats", "extract", "explain", "trace", "exclude"}


def test_the_page_shows_all_planted_faults() -> None:
    shown = {line: "\n".join(output) for line, output in shown_commands()}

    def printed(start: str) -> str:
        return "\n".join(text for line, text in shown.items() if line.startswith(f"energon {start}"))

    assert f"{BROKEN:06d} [jpg]" in printed("lint faulty/photos")
    assert f"{2 * len(DUPLICATES)} samples in {len(DUPLICATES)} groups" in printed("stats faulty/photos --duplicates")
    assert f"{GERMAN:06d}" in shown["cat german.jsonl"]
    assert "splits.train.blend[2]" in printed("explain")
    assert f"{GERMAN:06d}" in printed("trace")


def test_a_real_run_uses_the_sample_at_the_steps_of_the_page(folder: Path) -> None:
    for line, _ in islice(shown_commands(), 3):
        run(line, folder)
    shown = {line: output for line, output in shown_commands() if line.startswith("energon trace")}
    [steps] = [
        [int(text.split()[1]) for text in output] for line, output in shown.items() if f"--key {GERMAN:06d}" in line
    ]
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    with pytest.warns(UserWarning, match="are reached twice"):
        dataset = get_train_dataset(
            folder / "faulty/mix.yaml",
            batch_size=4,
            shuffle_buffer_size=None,
            max_samples_per_sequence=None,
            worker_config=config,
        )
    key = f"shard_000.tar/{GERMAN:06d}"
    with get_savable_loader(dataset) as loader:
        used = [step for step, batch in enumerate(islice(loader, 40)) if key in batch.__key__]
    assert steps
    assert used == steps
