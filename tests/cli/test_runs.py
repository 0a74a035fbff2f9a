"""``energon explain`` and ``energon trace``: what they print, and their exit codes."""

from __future__ import annotations

import copy
import json
import random
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import pytest
import torch

from loader import DefaultTaskEncoder, WorkerConfig, get_savable_loader, get_train_dataset
from loader.inspect.runs import PlannedRun, RunRequest, trace_step
from loader.prepare.plan import SplitRequest
from loader.samples.hook_marks import stateless
from tests.cli.run_energon import RunEnergon
from tests.e2e.dataset_tree import prepare, write_shard
from tests.e2e.text_dataset import CRUDE, write_texts
from tests.forked_commands import program


class Dropping(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Skips some samples and doubles others."""

    @stateless
    def encode_sample(self, sample: Any) -> Iterator[Any]:
        for _ in range(sum(sample.__key__.encode()) % 3):
            yield copy.copy(sample)

    def batch(self, samples: list[Any]) -> dict[str, Any]:
        return {"keys": [one.__key__ for one in samples], "noise": torch.rand(3), "python": random.random()}


class Packing(Dropping):
    """Packs them, too."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[start : start + 2] for start in range(0, len(samples), 2)]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        samples[0].__key__ = "+".join(one.__key__ for one in samples)
        return samples[0]


TRAINED: dict[str, tuple[dict[str, Any], Callable[[], Any]]] = {
    "plain": ({}, DefaultTaskEncoder),
    "Dropping": ({}, Dropping),
    "Packing": ({"packing_buffer_size": 7}, Packing),
}


def train(folder: Path, kind: str) -> list[Any]:
    """Train 6 steps on two ranks, then 4 on one, skip step 2, and write a log and a checkpoint."""
    options, encoder = TRAINED[kind]

    def loader_of(rank: int, ranks: int) -> Any:
        config = WorkerConfig(rank=rank, world_size=ranks, num_workers=0, lanes=4, seed_offset=3)
        dataset = get_train_dataset(
            str(folder / "data"),
            worker_config=config,
            batch_size=3,
            shuffle_buffer_size=20,
            max_samples_per_sequence=5,
            task_encoder=encoder(),
            **options,
        )
        return get_savable_loader(dataset, trace_dir=folder / "log", skip_steps=[(2, 3)] if ranks == 2 else ())

    loaders = [loader_of(rank, 2) for rank in range(2)]
    streams = [iter(loader) for loader in loaders]
    made: list[Any] = [[next(stream) for stream in streams] for _ in range(5)]
    made.insert(2, [None, None])
    loader = loader_of(0, 1)
    loader.restore_state_global([one.save_state_rank() for one in loaders])
    stream = iter(loader)
    made += [[next(stream)] for _ in range(4)]
    (folder / "run").mkdir()
    (folder / "run/rank0.json").write_text(json.dumps(loader.save_state_rank()))
    return made


def keys_of(batch: Any) -> list[str]:
    keys = batch["keys"] if isinstance(batch, dict) else batch.__key__
    return [key for pack in keys for key in pack.split("+")]


def test_without_numbers_of_a_run_an_epoch_is_explained_and_the_exit_code_is_0(
    prepared: Path, energon: RunEnergon
) -> None:
    samples = energon("stats", prepared, "--split-parts", "train", "--json").json["samples"]
    facts = energon("explain", prepared, "--json")
    assert (facts.code, facts.json["steps"], facts.json["samples"]) == (0, samples, samples)
    assert facts.json["sources"][0]["epochs"] == 1
    assert energon("explain", prepared, "--split-parts", "val").code == 0
    assert energon("explain", prepared, "--batch-size", 2, "--json").json["steps"] == 1000


def test_a_run_is_explained_with_its_findings(prepared: Path, energon: RunEnergon) -> None:
    done = energon("explain", prepared, "--steps", 100, "--batch-size", 2)
    assert done.code == 1  # six samples for 48 lanes
    assert "100 steps of 2 samples: 200 samples" in done.out
    assert "many epochs" in done.out
    facts = json.loads(energon("explain", prepared, "--steps", 100, "--batch-size", 2, "--json").out)
    assert facts["sources"][0]["used"] == 200
    assert {finding["kind"] for finding in facts["findings"]} == {"many epochs", "few samples"}


def test_the_shares_between_changes_of_weights_are_a_table(tmp_path: Path, energon: RunEnergon) -> None:
    for name, first in (("a", 0), ("b", 1000)):
        write_texts(tmp_path / name, train=(100, 100), val=(3,), first=first)
    mix = tmp_path / "mix.yaml"
    head = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n    - {path: b}\n"
    mix.write_text(f"{head}    - {{path: a, weight: {{0: 3, 10: 0}}}}\n")
    options = ("--steps", 20, "--batch-size", 8, "--lanes", 4)
    lines = [line.split() for line in energon("explain", mix, *options).out.splitlines()]
    assert ["0", "–", "10", "25.0", "%", "→", "25.0", "%", "75.0", "%", "→", "75.0", "%"] in lines
    assert ["10", "–", "20", "100.0", "%", "→", "100.0", "%", "0.0", "%", "→", "0.0", "%"] in lines
    [first, _] = json.loads(energon("explain", mix, *options, "--json").out)["stretches"]
    assert first == {"steps": [0.0, 10.0], "shares_asked": [0.25, 0.75], "used": [20, 60]}

    linear = "{unit: samples, change: linear, at: {0: 1, 100: 3}}"  # stretches begin within steps
    mix.write_text(f"{head}    - {{path: a, weight: {linear}}}\n")
    done = energon("explain", mix, *options)
    assert "the weights change 32 times; shares asked" in done.out
    rows = [line.strip() for line in done.out.splitlines()]
    assert "…" in rows
    assert len([line for line in rows if "% → " in line]) == 20
    assert "12.5 – 20" in done.out


def test_a_step_is_traced_and_a_key_found(prepared: Path, energon: RunEnergon) -> None:
    done = energon("trace", prepared, "--step", 3, "--batch-size", 2, "--world-size", 2, "--json")
    samples = [json.loads(line) for line in done.out.splitlines()]
    assert [(one["rank"], one["position"]) for one in samples] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    key = samples[2]["key"]
    done = energon("trace", prepared, "--key", key, "--steps", 4, "--batch-size", 2, "--world-size", 2)
    assert f"step 3  rank 1  0  {key}" in done.out


def test_usage_without_a_step_or_key_is_refused(prepared: Path, energon: RunEnergon) -> None:
    assert energon("trace", prepared).code == 2
    assert energon("trace", prepared, "--step", 1, "--key", "000001").code == 2
    done = energon("trace", prepared, "--key", "nothing")
    assert done.code == 1
    assert "there is no sample 'nothing'" in done.err


@pytest.fixture(params=TRAINED)
def trained(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, list[Any]]:
    write_texts(tmp_path / "data", train=(70, 50))
    return request.param, tmp_path, train(tmp_path, request.param)


def test_a_checkpoint_and_a_log_tell_the_samples_of_each_step(
    trained: tuple[str, Path, list[Any]], energon: RunEnergon
) -> None:
    kind, folder, made = trained
    hooks = () if kind == "plain" else ("--task-encoder", f"{__name__}:{kind}")
    steps = [word for step in range(10) for word in ("--step", step)]
    for path, options in ((folder / "run", hooks), (folder / "log", ())):
        done = energon("trace", path, *steps, *options, "--json")
        assert done.code == 0, done.err
        found: dict[tuple[int, int], list[str]] = {}
        for one in map(json.loads, done.out.splitlines()):
            assert one["left_out"] is (one["step"] == 2)
            found.setdefault((one["step"], one["rank"]), []).append(one["key"])
        for step, batches in enumerate(made):
            for rank, batch in enumerate(batches):
                assert batch is None or found[step, rank] == keys_of(batch)
    if kind != "plain":
        done = energon("trace", folder / "run", "--step", 5)
        assert done.code == 1
        assert "samples were skipped, packed or generated" in done.err
        assert "--task-encoder" in done.err


def test_a_step_is_made_again_and_written(
    trained: tuple[str, Path, list[Any]], energon: RunEnergon, tmp_path: Path
) -> None:
    kind, folder, made = trained
    hooks = () if kind == "plain" else ("--task-encoder", f"{__name__}:{kind}")
    for path in (folder / "run", folder / "log"):
        done = energon("trace", path, "--step", 4, "--rank", 1, *hooks, "--replay", "--output", tmp_path / "made.pt")
        assert done.code == 0, done.err
        (batch,) = torch.load(tmp_path / "made.pt", weights_only=False)[4].values()
        assert keys_of(batch) == keys_of(made[4][1])
        if kind != "plain":
            assert batch["noise"].equal(made[4][1]["noise"])
            assert batch["python"] == made[4][1]["python"]
    assert "step 4  rank 1" in energon("trace", folder / "run", "--step", 4, "--rank", 1, *hooks, "--replay").out


def test_the_log_tells_the_steps_of_a_key(trained: tuple[str, Path, list[Any]], energon: RunEnergon) -> None:
    _, folder, made = trained
    key = keys_of(made[1][0])[0]
    expected = sorted(
        {(step, rank) for step, some in enumerate(made) for rank, one in enumerate(some) if one and key in keys_of(one)}
    )
    done = energon("trace", folder / "log", "--key", key, "--steps", 10, "--json")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert sorted({(one["step"], one["rank"]) for one in found if not one["left_out"]}) == expected


def test_wrong_uses_of_a_checkpoint_say_what_to_do(tmp_path: Path, energon: RunEnergon) -> None:
    write_texts(tmp_path / "data", train=(70, 50))
    write_texts(tmp_path / "other", train=(60, 50))
    train(tmp_path, "plain")
    run = tmp_path / "run"
    assert energon("trace", run, "--step", 1, "--batch-size", 3).code == 2
    assert energon("trace", run, "--step", 1, "--output", "x.pt").code == 2
    done = energon("trace", run, "--step", 1, "--dataset", tmp_path / "other")
    assert done.code == 1
    assert "checksum of the selected samples" in done.err
    assert energon("trace", run, "--step", 1, "--task-encoder", "nothing").code == 2
    for wrong in ("nothing:Class", "json:loads", "pathlib:Path"):
        done = energon("trace", run, "--step", 1, "--task-encoder", wrong)
        assert done.code == 1
        assert "task encoder" in done.err or "TaskEncoder" in done.err
    (tmp_path / "moved").mkdir()
    (tmp_path / "data").rename(tmp_path / "moved/data")
    assert energon("trace", run, "--step", 1, "--dataset", tmp_path / "moved/data").code == 0


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., list[str]]:
    """Run ``energon trace … --open`` until it prints its links, follow them, and end it by Ctrl-C."""

    def run(*words: object, samples: int) -> list[str]:
        command = [program(), "trace", *map(str, words), "--open"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
            assert process.stdout is not None
            try:
                lines = [process.stdout.readline() for _ in range(3 * samples)]
                return [followed(link.strip()) for link in lines[samples + 1 :: 2]]
            finally:
                process.send_signal(signal.SIGINT)
                assert process.wait() == 0

    return run


def followed(link: str) -> str:
    """Return the text of the sample to whose page a link leads, as the page itself finds it."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(link) as answer:
        assert answer.status == 200
        place = urlsplit(answer.url)
    start = f"{place.scheme}://{place.netloc}"

    def fetched(path: str) -> bytes:
        with opener.open(start + path) as answer:
            content: bytes = answer.read()
            return content

    _, _, name, *inner = map(unquote, place.path.split("/"))
    shard, key = inner if len(inner) == 2 else (parse_qs(place.query)[word][0] for word in ("shard", "key"))
    names = [one["name"] for one in json.loads(fetched("/api/catalogue"))["datasets"]]
    dataset = f"/api/d/{names.index(name)}"
    number = json.loads(fetched(f"{dataset}/find?{urlencode({'shard': shard, 'key': key})}"))["number"]
    return fetched(f"{dataset}/{number}/part?part=txt").decode()


def test_links_of_a_step_lead_to_its_samples(tmp_path: Path, opened: Callable[..., list[str]]) -> None:
    for folder, first in (("a/data", 0), ("b/data", 100)):
        write_shard(
            tmp_path / folder / "train_0.tar",
            {f"ein Ordner/ü{number}?%2F": {"txt": b"text %d" % number} for number in range(first, first + 9)},
        )
        prepare(tmp_path / folder, split=SplitRequest(ratio={"train": 1.0}), files={"dataset.yaml": CRUDE})
    (tmp_path / "mix.yaml").write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        "      - {weight: 1, path: a/data}\n      - {weight: 1, path: b/data}\n"
    )
    for path in ("mix.yaml", "a/data"):
        found = opened(path, "--step", 3, "--batch-size", 4, samples=4)
        run = PlannedRun(RunRequest(path=str(tmp_path / path), batch_size=4))
        assert found == [f"text {one.key.split('ü')[1].split('?')[0]}" for one in trace_step(run, 3)]
