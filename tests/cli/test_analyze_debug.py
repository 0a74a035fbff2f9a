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

PEER_LOG = Path(__file__).parents[1] / "golden/megatron_energon/debug_log"
"""Written by megatron-energon 7.4.1 through tests/interop/peer_debug_log.py: two ranks; the path was replaced."""
PEER_STEPS = [
    [["00000", "00001", "00005", "00004"], ["00007", "00006", "00007", "00005"], ["00003", "00007", "00003", "00000"]],
    [["00013", "00012", "00009", "00014"], ["00010", "00008", "00013", "00013"], ["00010", "00009", "00015", "00009"]],
]
"""The keys that its loaders gave to the program, by rank and step."""
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
    assert "  0: train, start 1, 1 rank, 1 sample," in done.out
    assert "Found 2 unique sample keys, 1 step\n" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Pass LOG_PATHS, or --dataset."),
        (("{folder}", "--dataset", "x"), 2, "Pass LOG_PATHS, or --dataset."),
        (("{folder}",), 1, "worker_debug_path"),
        (("{folder}/none",), 1, "No such file or directory"),
        (("{folder}", "--force-loading-order"), 1, "no line of a worker that read a sample"),
        (("--dataset", "x", "--step", 1), 2, "energon trace lists"),
        (("--dataset", "x", "--force-loading-order"), 2, "needs LOG_PATHS"),
        (("{folder}", "--include-modality", "tain"), 2, "expected train or val, found 'tain'"),
    ],
)
def test_arguments_without_samples_are_errors_that_say_what_to_pass(
    tmp_path: Path, energon: RunEnergon, arguments: tuple[object, ...], code: int, message: str
) -> None:
    done = energon("analyze-debug", *(str(one).format(folder=tmp_path) for one in arguments))
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


def test_a_log_that_megatron_energon_wrote_is_read(energon: RunEnergon) -> None:
    done = energon("analyze-debug", PEER_LOG, "--no-heatmap")
    assert done.code == 0
    assert done.out.splitlines()[:4] == [
        "Analyzing 2 logs",
        "* 0: train, 2 ranks, 24 samples, /data/texts",
        "  2: val, 2 ranks, 7 samples, /data/texts",
        f"Found {len({key for steps in PEER_STEPS for keys in steps for key in keys})} unique sample keys, 3 steps",
    ]
    for step in range(3):
        lines = energon("analyze-debug", PEER_LOG, "--step", step).out.splitlines()
        assert lines == [
            f"step {step}  rank {rank}  {position}  {key}"
            for rank in range(2)
            for position, key in enumerate(PEER_STEPS[rank][step])
        ]
    uses = energon("analyze-debug", PEER_LOG, "--key", "00009", "--json").out.splitlines()
    assert [tuple(json.loads(line).values()) for line in uses] == [
        (0, 1, 2, "00009"),
        (2, 1, 1, "00009"),
        (2, 1, 3, "00009"),
    ]
    assert energon("analyze-debug", PEER_LOG, "--no-heatmap", "--skip", 1, "--json").json["uses"] == 16
    read = energon("analyze-debug", PEER_LOG, "--no-heatmap", "--force-loading-order", "--json").json
    assert (read["uses"], read["unique"]) == (69, 23)  # all samples of train and val; the shuffle buffer holds more


def test_each_rank_has_a_colour_and_one_alone_is_grey(energon: RunEnergon, tmp_path: Path) -> None:
    def drawn(name: str, *arguments: object) -> Image.Image:
        assert energon("analyze-debug", *arguments, "--heatmap-path", tmp_path / name).code == 0
        with Image.open(tmp_path / name) as image:
            return image.copy()

    colored = drawn("two.png", PEER_LOG)
    assert (colored.mode, colored.size) == ("RGB", (3, 14))
    column = [colored.getpixel((0, row)) for row in range(14)]
    hues = {tuple(2 * value > max(pixel) for value in pixel) for pixel in column if isinstance(pixel, tuple)}
    assert len(hues - {(False,) * 3}) == 2  # rank 0 and rank 1 share no sample
    assert drawn("grey.png", PEER_LOG, "--no-colors").mode == "L"
    assert drawn("one.png", PEER_LOG / "worker_0.jsonl").mode == "L"
    dim, bright = drawn("dim.png", PEER_LOG, "--heatmap-gain", 0.25), drawn("bright.png", PEER_LOG)
    assert max(dim.tobytes()) < max(bright.tobytes())


def test_a_step_of_the_log_is_that_of_trace(texts: Path, tmp_path: Path, energon: RunEnergon) -> None:
    log_run(texts, tmp_path / "debug")
    logged = energon("analyze-debug", tmp_path / "debug", "--step", 4, "--json").out.splitlines()
    run = ("--batch-size", 4, "--world-size", 2, "--shuffle-buffer-size", 20, "--max-samples-per-sequence", 5)
    traced = energon("trace", texts, *run, "--step", 4, "--json").out.splitlines()
    names = ("step", "rank", "position", "key")
    assert [[json.loads(line)[name] for name in names] for line in logged] == [
        [json.loads(line)[name] for name in names] for line in traced
    ]
