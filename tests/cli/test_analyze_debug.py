"""``energon analyze-debug``: from the files that loaders write, and from the arguments of a run alone."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from PIL import Image

from loader import WorkerConfig, get_savable_loader, get_train_dataset
from tests.cli.run_energon import RunEnergon
from tests.e2e.text_dataset import write_texts

RUN = ("--steps", 6, "--batch-size", 4, "--world-size", 2, "--shuffle-buffer-size", 20)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    write_texts(tmp_path / "texts")
    return tmp_path / "texts"


def log_run(data: Path, folder: Path, *, steps: int = 6) -> None:
    for rank in range(2):
        config = WorkerConfig(
            rank=rank,
            world_size=2,
            num_workers=0,
            worker_debug_path=folder / "worker_{worker_id}.jsonl",
            worker_log_level=2,
        )
        dataset = get_train_dataset(
            data, batch_size=4, shuffle_buffer_size=20, max_samples_per_sequence=5, worker_config=config
        )
        with get_savable_loader(dataset) as loader:
            list(islice(loader, steps))


def test_the_logs_of_a_run_and_its_arguments_give_the_same_counts_and_picture(
    texts: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    log_run(texts, tmp_path / "debug")
    pictures = tmp_path / "logged.png", tmp_path / "traced.png"
    logged = energon("analyze-debug", tmp_path / "debug", "--heatmap-path", pictures[0], "--json")
    traced = energon(
        "analyze-debug",
        *("--dataset", texts),
        *RUN,
        *("--max-samples-per-sequence", 5, "--heatmap-path", pictures[1], "--json"),
    )
    assert (logged.code, traced.code) == (0, 0)
    facts, same = json.loads(logged.out), json.loads(traced.out)
    loaders = facts.pop("loaders")
    assert [(one["ranks"], one["modality"], one["paths"]) for one in loaders] == [([0, 1], "train", [str(texts)])]
    del facts["heatmap"], same["heatmap"], same["loaders"]
    assert facts == same
    assert facts["uses"] == 48
    images = [Image.open(path) for path in pictures]
    assert images[0].size == (6, facts["unique"])
    assert images[0].tobytes() == images[1].tobytes()
    text = energon("analyze-debug", tmp_path / "debug", "--no-heatmap")
    assert f"Found {facts['unique']} unique sample keys, 6 steps" in text.out


def test_a_restart_and_half_a_line_do_not_mix_up_loaders(texts: Path, tmp_path: Path, energon: RunEnergon) -> None:
    folder = tmp_path / "debug"
    folder.mkdir()
    lines = [
        {"t": "SavableLoader.__init__", "r": 0, "id": 0, "config": {"training": True, "_path": "/data/a\x1b[2J"}},
        {"t": "SavableDataLoader.yield", "r": 0, "id": 0, "global_idx": 0, "keys": ["a", "b"]},
        {"t": "SavableLoader.__init__", "r": 0, "id": 0, "config": {"training": True}},
        {"t": "SavableDataLoader.yield", "r": 0, "id": 0, "global_idx": 0, "keys": ["a"]},
        {"t": "SavableDataLoader.yield", "r": 0, "id": 0, "global_idx": -5, "keys": ["never"]},
        {"t": 3, "r": [], "id": None},
    ]
    text = "\n".join(map(json.dumps, lines)) + "\n[1, 2]\n" + '{"t": "SavableDataLoader.yield", "r": 0, "ke'
    (folder / "worker_0.jsonl").write_text(text)
    done = energon("analyze-debug", folder, "--no-heatmap")
    assert done.code == 0
    assert "* 0: train, 1 rank, 2 samples, /data/a\\x1b[2J" in done.out
    assert "  0: train, start 1, 1 rank, 1 samples" in done.out
    assert "Found 2 unique sample keys, 1 steps" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Pass LOG_PATHS, or --dataset."),
        (("{folder}", "--dataset", "x"), 2, "Pass LOG_PATHS, or --dataset."),
        (("{folder}",), 1, "worker_debug_path"),
        (("{folder}/none",), 1, "No such file or directory"),
        (("{folder}", "--include-modality", "tain"), 2, "expected train or val, found 'tain'"),
    ],
)
def test_arguments_without_samples_are_errors_that_say_what_to_pass(
    tmp_path: Path, energon: RunEnergon, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = energon("analyze-debug", *(one.format(folder=tmp_path) for one in arguments))
    assert done.code == code
    assert message in done.err


def test_a_loader_that_is_not_there_is_named_with_those_that_are(
    texts: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    log_run(texts, tmp_path / "debug", steps=1)
    done = energon("analyze-debug", tmp_path / "debug", "--force-loader-id", 99)
    assert done.code == 1
    assert "no loader with the number 99" in done.err
    assert "(train, 8 samples)" in done.err
    done = energon("analyze-debug", tmp_path / "debug", "--heatmap-path", tmp_path / "no/x.png")
    assert done.code == 1
    assert "--heatmap-path" in done.err
