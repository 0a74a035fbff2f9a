"""``energon checkpoint``: describe saved states, and convert them to another number of ranks."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from loader import DefaultTaskEncoder, WorkerConfig, get_savable_loader, get_train_dataset, get_val_dataset
from tests.cli.run_energon import RunEnergon
from tests.e2e.text_dataset import write_texts
from tests.elastic_runs import fingerprint, number_of
from tests.unit.training.states.test_checksum import ByLength, same


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("checkpoint") / "texts")


class Packing(DefaultTaskEncoder[Any, Any, Any, Any]):
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[:2], samples[2:]]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return samples[0]


def loader_of(texts: Path, rank: int, ranks: int, *, restored: bool = False, **options: Any) -> Any:
    config = WorkerConfig(rank=rank, world_size=ranks, num_workers=0, lanes=None if restored else 12, seed_offset=5)
    given = {"batch_size": 4, "shuffle_buffer_size": 20, "max_samples_per_sequence": 10, **options}
    return get_savable_loader(get_train_dataset(texts, worker_config=config, **given))


def steps_of(loader: Any, steps: int) -> dict[int, bytes]:
    return {number_of(batch): fingerprint(batch) for _, batch in zip(range(steps), loader, strict=False)}


def states_of(texts: Path, ranks: int, steps: int = 3, **options: Any) -> list[dict[str, Any]]:
    states = []
    for rank in range(ranks):
        loader = loader_of(texts, rank, ranks, **options)
        steps_of(loader, steps)
        states.append(loader.save_state_rank())
    return states


def save(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(content))
    else:
        torch.save(content, path)
    return path


@pytest.fixture(scope="module")
def two(texts: Path) -> list[dict[str, Any]]:
    return states_of(texts, 2)


# -------------------------------------------------------------------------------------------------------------- info


def test_the_output_shows_the_progress_of_a_run(
    two: list[dict[str, Any]], texts: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    for rank, state in enumerate(two):
        save(tmp_path / "run" / f"dp{rank}.pt", {"dataloader_state_dict": state})
    done = energon("checkpoint", "info", tmp_path / "run")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{tmp_path}/run/dp0.pt",
        "  state of rank 0 of 2 at dataloader_state_dict",
        f"{tmp_path}/run/dp1.pt",
        "  state of rank 1 of 2 at dataloader_state_dict",
        "",
        "a run of 2 ranks, all present",
        "next        micro-batch 6 of the run",
        "resumes on  1, 2, 3, 4, 6 or 12 ranks",
        "lanes       12, 6 started",
        "kind        endless",
        "seed        5",
        "stages      read → decode → batch (4)",
        f"data        {texts}, train: 157 samples, uuid {two[0]['dataset'][2][2][2]['uuid']}",
    ]


def test_the_json_report_is_complete(
    two: list[dict[str, Any]], texts: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    path = save(tmp_path / "all.json", {"step": 3, "loaders": [{"train": list(two)}]})
    done = energon("checkpoint", "info", path, "--json")
    assert done.code == 0
    (file,), (run,) = done.json["files"], done.json["runs"]
    assert (file["path"], file["form"], file["fault"]) == (str(path), "json", None)
    assert [state["place"] for state in file["states"]] == ["loaders[0].train[0]", "loaders[0].train[1]"]
    assert file["states"][1] == {
        "place": "loaders[0].train[1]",
        "rank": 1, "ranks": 2, "batch": 6, "steps": [], "passes": 0, "ended": False,
        "lanes_begun": 3, "samples_waiting": 0,
    }  # fmt: skip
    assert run["states"] == [f"{path}: loaders[0].train[0]", f"{path}: loaders[0].train[1]"]
    wanted = {
        "ranks": 2, "missing_ranks": [], "fault": None, "lanes": 12, "lanes_begun": 6, "kind": "endless", "seed": 5,
        "possible_ranks": [1, 2, 3, 4, 6, 12], "batch": 6, "steps": [], "passes": 0, "ended": False,
        "samples_waiting": 0,
    }  # fmt: skip
    assert {name: run[name] for name in wanted} == wanted
    assert [stage["name"] for stage in run["stages"]] == ["batch", "decode", "read"]
    assert [(one["path"], one["split_part"], one["samples"]) for one in run["datasets"]] == [(str(texts), "train", 157)]


def test_a_state_with_integer_keys_is_described_and_converted(texts: Path, tmp_path: Path, energon: RunEnergon) -> None:
    """A user's stage may count by integers; ``torch.save`` keeps them, next to the texts of the other stages."""

    def build(lanes: int | None) -> Any:
        config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=lanes, seed_offset=5)
        dataset = get_train_dataset(
            texts, worker_config=config, batch_size=4, shuffle_buffer_size=20, max_samples_per_sequence=10
        )
        return get_savable_loader(ByLength(dataset, same))

    loader = build(12)
    steps_of(loader, 3)
    state = loader.save_state_rank()
    state["lane"] = {int(lane): dict(inner) for lane, inner in state["lane"].items()}  # as some frameworks make them
    path = save(tmp_path / "rank0.pt", {"loader": state})
    done = energon("checkpoint", "info", path)
    assert (done.code, done.err) == (0, "")
    assert "next        micro-batch 3 of the run" in done.out
    assert energon("checkpoint", "redist", path, tmp_path / "two", "--new-world-size", 2).code == 0
    assert energon("checkpoint", "redist", tmp_path / "two", tmp_path / "one", "--new-world-size", 1).code == 0
    (written,) = (tmp_path / "one").iterdir()
    restored = build(None)
    restored.restore_state_rank(torch.load(written, weights_only=True)["loader"])
    assert fingerprint(next(iter(restored))) == fingerprint(next(iter(loader)))


def test_states_are_found_anywhere_in_a_training_checkpoint(
    two: list[dict[str, Any]], texts: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    model = torch.nn.Linear(300, 300)
    moments = {0: {"step": torch.tensor(1.0), "exp_avg": torch.zeros(300, 300)}}
    val = get_savable_loader(
        get_val_dataset(texts, batch_size=4, worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0))
    )
    path = save(
        tmp_path / "whole.pt",
        {
            "model": model.state_dict(),
            "optimizer": {"state": moments, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0]}]},
            "data": OrderedDict(train=two, val=(val.save_state_rank(),)),
            "rng": torch.get_rng_state(),
        },
    )
    done = energon("checkpoint", "info", path, "--json")
    assert done.code == 0
    assert [run["kind"] for run in done.json["runs"]] == ["endless", "finite"]
    assert [state["place"] for state in done.json["files"][0]["states"]] == [
        "data.train[0]", "data.train[1]", "data.val[0]",
    ]  # fmt: skip


def test_buffered_samples_are_counted(texts: Path, tmp_path: Path, energon: RunEnergon) -> None:
    loader = loader_of(texts, 0, 1, batch_size=1, packing_buffer_size=5, task_encoder=Packing())
    steps_of(loader, 14)  # a buffer of 5 makes two micro-batches: two of twelve lanes have finished theirs
    path = save(tmp_path / "state.json", loader.save_state_rank())
    assert energon("checkpoint", "info", path, "--json").json["runs"][0]["samples_waiting"] == 10 * 3
    assert "waiting     30 samples in buffers" in energon("checkpoint", "info", path).out


def test_missing_ranks_are_named(two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon) -> None:
    path = save(tmp_path / "dp1.pt", two[1])
    done = energon("checkpoint", "info", path)
    assert done.code == 0
    assert "a run of 2 ranks; missing ranks: 0" in done.out


def test_counts_and_ends_are_shown(texts: Path, tmp_path: Path, energon: RunEnergon) -> None:
    loader = loader_of(texts, 0, 1, repeat=False, virtual_epoch_length=30)
    for _ in range(3):
        steps_of(loader, 35)
    out = energon("checkpoint", "info", save(tmp_path / "state.pt", loader.save_state_rank())).out
    assert "finite pass" in out
    assert "passes      restarted 2 times" in out
    assert "(virtual epochs, limits, repeats)" in out


def test_edits_of_the_mix_are_shown(
    two: list[dict[str, Any]], texts: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    entries = [{"path": str(texts)}, {"path": str(texts), "split_part": "val"}]
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": {"blend": entries}}}
    mix = save(tmp_path / "mix.json", document).rename(tmp_path / "mix.yaml")  # JSON is YAML
    loader = loader_of(mix, 0, 1, restored=True)
    loader.restore_state_global(two, allow_mix_change=True)
    path = save(tmp_path / "state.json", loader.save_state_rank())
    lines = energon("checkpoint", "info", path).out.splitlines()
    assert lines[-2:] == [
        "edited      before micro-batch 6; 1 dataset continued",
        f"            {texts}, val: new, weight 0.5",
    ]
    (change,) = energon("checkpoint", "info", path, "--json").json["runs"][0]["mix_changes"]
    assert change["batch"] == 6
    assert [leaf["change"] for leaf in change["leaves"]] == ["continues at 15 %", "new"]


def test_states_that_do_not_match_are_a_fault(
    texts: Path, two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon
) -> None:
    later = states_of(texts, 2, 4)
    files = [save(tmp_path / "0.pt", two[0]), save(tmp_path / "1.pt", later[1])]
    done = energon("checkpoint", "info", *files)
    assert done.code == 1
    assert "at different steps: the next micro-batches are 6, 8" in done.out
    assert (
        energon("checkpoint", "info", *files, "--json").json["runs"][0]["fault"].startswith("the ranks were saved at")
    )


def test_duplicate_states_count_once(two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon) -> None:
    files = [save(tmp_path / f"{rank}.pt", {"states of all ranks": two}) for rank in range(2)]
    done = energon("checkpoint", "info", *files, "--json")
    assert done.code == 0
    assert [len(run["states"]) for run in done.json["runs"]] == [2]


# ----------------------------------------------------------------------------------------------------- invalid files


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch was-here",)


class Options:
    """A namespace, as argparse returns and scripts save."""


def torch_file(path: Path, content: Any, *, old: bool = False) -> None:
    torch.save(content, path, _use_new_zipfile_serialization=not old)


def zip_file(path: Path, name: str, content: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)


def cut_file(path: Path, state: Any, keep: float) -> None:
    torch.save({"loader": state, "w": torch.ones(1000)}, path)
    os.truncate(path, int(path.stat().st_size * keep))


def file_of_megatron_energon(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        named = b"cmegatron.energon.savable_loader\nSavableDataLoaderState\n"
        for name, content in (("data.pkl", b"\x80\x02" + named + b")\x81."), ("version", b"3\n")):
            archive.writestr(f"state/{name}", content)


def lists_of_lists() -> Any:
    lists: Any = []
    for _ in range(60):
        lists = [lists] * 10
    return lists


def list_of_itself() -> Any:
    lists: Any = []
    lists.append(lists)
    return lists


WRITE: dict[str, Callable[[Path, Any], object]] = {
    "code": lambda path, state: torch_file(path, {"loader": state, "x": Evil()}),
    "object": lambda path, state: torch_file(path, {"loader": state, "args": Options()}),
    "code, as torch saved before 1.6": lambda path, state: torch_file(path, {"loader": state, "x": Evil()}, old=True),
    "plain pickle": lambda path, _: path.write_bytes(pickle.dumps(Evil())),
    "cut": lambda path, state: cut_file(path, state, 0.5),
    "cut at its end": lambda path, state: cut_file(path, state, 0.99),
    "of megatron-energon": lambda path, _: file_of_megatron_energon(path),
    "empty": lambda path, _: path.write_bytes(b""),
    "text": lambda path, _: path.write_text("epoch: 3\n"),
    "unrelated": lambda path, _: torch_file(path, torch.nn.Linear(2, 2).state_dict()),
    "zip": lambda path, _: zip_file(path, "notes.txt", b"nothing"),
    "bomb": lambda path, _: zip_file(path, "a/data.pkl", bytes(3 << 20)),
    "deep json": lambda path, _: path.write_text('{"a":' + "[" * 10_000),
    "cut json": lambda path, state: path.write_text(json.dumps(state)[:-5]),
    "large json": lambda path, state: path.write_text(json.dumps(state) + " " * (1 << 20)),
    "damaged state": lambda path, state: torch_file(path, {"loader": {**state, "lane": "none"}}),
    "tensor in the state": lambda path, state: torch_file(path, {"loader": {**state, "steps": [torch.ones(3)]}}),
    "version": lambda path, state: torch_file(path, {"loader": {**state, "version": 77}}),
    "a billion lists": lambda path, state: torch_file(path, {"loader": {**state, "dataset": lists_of_lists()}}),
    "list of itself": lambda path, state: torch_file(path, [list_of_itself(), {**state, "dataset": list_of_itself()}]),
}
NO_GOOD = {
    "code": "not read: it holds objects of (posix|nt).system, and reading such a pickle may run code",
    "object": r"holds objects of \S*test_checkpoint.Options",
    "code, as torch saved before 1.6": "holds objects of (posix|nt).system",
    "plain pickle": "found another pickle, which may run code",
    "cut": "this file of torch.save is damaged",
    "cut at its end": "this file of torch.save is damaged",
    "of megatron-energon": r"this is a state of megatron-energon \(it holds megatron.energon.savable_loader",
    "empty": "found an empty file",
    "text": "found a file that starts with b'epoch: 3",
    "unrelated": "this file contains no state of a loader",
    "zip": "torch.save did not write this zip file",
    "bomb": "expected at most 1 MiB of plain data, found 3 MiB",
    "large json": "expected at most 1 MiB of plain data, found 1 MiB",
    "deep json": "this JSON cannot be read",
    "cut json": "this JSON cannot be read",
    "damaged state": "this state is damaged",
    "tensor in the state": "it holds a Tensor, and a state is plain data",
    "version": "expected a state of version 4, found version 77",
    "a billion lists": "expected a state of at most 16,384 values, found more",
    "list of itself": "nests deeper than the states that loaders save",
}


@pytest.mark.parametrize("kind", NO_GOOD)
def test_an_invalid_file_is_reported_and_runs_no_code(
    kind: str, two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENERGON_MAX_DOCUMENT_BYTES", str(1 << 20))
    path = tmp_path / "state.pt"
    WRITE[kind](path, two[0])
    gc.collect()  # what other tests left has finalizers, which fail in the depth of a recursion
    done = energon("checkpoint", "info", path, "--json")
    assert done.code == 1
    (fault,) = [file["fault"] for file in done.json["files"]]
    assert not done.json["runs"]
    assert not done.err
    assert re.search(NO_GOOD[kind], fault), fault
    assert str(path) in fault
    again = energon("checkpoint", "redist", path, tmp_path / "out", "--new-world-size", 1)
    assert (again.code, again.out) == (1, "")
    assert "Traceback" not in again.err
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "was-here").exists()


def test_valid_files_are_described_next_to_an_invalid_one(
    two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon
) -> None:
    good = save(tmp_path / "0.pt", two[0])
    done = energon("checkpoint", "info", good, tmp_path / "gone.pt")
    assert done.code == 1
    assert "state of rank 0 of 2" in done.out
    assert "error: cannot open this file: No such file or directory" in done.out


def test_models_in_a_folder_are_skipped(two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon) -> None:
    save(tmp_path / "run/model.pt", {"w": torch.ones(3)})
    (tmp_path / "run/notes.txt").write_text("nothing")
    (tmp_path / "run/deeper").mkdir()
    save(tmp_path / "run/deeper/1.pt", two[1])
    done = energon("checkpoint", "info", tmp_path / "run")
    assert (done.code, "no file in this folder contains a state" in done.out) == (1, True)
    save(tmp_path / "run/0.pt", two[0])
    done = energon("checkpoint", "info", tmp_path / "run", "--json")
    assert [Path(file["path"]).name for file in done.json["files"]] == ["0.pt"]
    done = energon("checkpoint", "redist", tmp_path / "run", tmp_path / "out", "--place", "data")
    assert (done.code, "no file in this folder contains a state of a loader at data" in done.err) == (1, True)
    (tmp_path / "empty").mkdir()
    assert "no file in this folder ends with" in energon("checkpoint", "info", tmp_path / "empty").err


def test_states_registered_with_accelerate_are_found_among_its_files(
    texts: Path, tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    accelerator.register_for_checkpointing(loader_of(texts, 0, 1))
    accelerator.save_state(str(tmp_path / "run"))
    accelerator.end_training()
    assert "random_states_0.pkl" in {file.name for file in (tmp_path / "run").iterdir()}
    done = energon("checkpoint", "info", tmp_path / "run", "--json")
    assert (done.code, [Path(file["path"]).name for file in done.json["files"]]) == (0, ["custom_checkpoint_0.pkl"])


# ------------------------------------------------------------------------------------------------------------- redist


@pytest.mark.parametrize(("ranks", "suffix"), [(1, ".pt"), (4, ".pt"), (3, ".json")])
def test_the_new_ranks_deliver_exactly_the_remaining_batches(
    ranks: int, suffix: str, texts: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    whole = steps_of(loader_of(texts, 0, 1), 30)
    delivered: dict[int, bytes] = {}
    for rank in range(2):
        loader = loader_of(texts, rank, 2)
        delivered |= steps_of(loader, 3)
        save(tmp_path / "in" / f"train_dprank{rank:03}{suffix}", {"dataloader_state_dict": loader.save_state_rank()})
    files = sorted((tmp_path / "in").iterdir())
    done = energon("checkpoint", "redist", *files, tmp_path / "out", "--new-world-size", ranks)
    assert (done.code, done.err) == (0, "")
    names = [f"train_dprank{rank:03}{suffix}" for rank in range(ranks)]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    for rank, name in enumerate(names):
        path = tmp_path / "out" / name
        saved = json.loads(path.read_text()) if suffix == ".json" else torch.load(path, weights_only=True)
        loader = loader_of(texts, rank, ranks, restored=True)
        loader.restore_state_rank(saved["dataloader_state_dict"])
        mine = steps_of(loader, 24 // ranks)
        assert not delivered.keys() & mine.keys()
        delivered |= mine
    assert delivered == whole
    assert energon("checkpoint", "info", tmp_path / "out").code == 0


def test_the_written_files_are_reported_as_text_and_as_json(
    two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon
) -> None:
    for rank, state in enumerate(two):
        save(tmp_path / "in" / f"dp{rank}.json", {"step": 3, "data": {"seed": 1, "loader": state}})
    done = energon("checkpoint", "redist", tmp_path / "in", tmp_path / "out", "--new-world-size", 4)
    assert (
        done.out == f"converted 2 ranks to 4 at micro-batch 6: wrote 4 files to {tmp_path}/out (dp0.json … dp3.json)\n"
    )
    assert done.err == "note: not copied, since only states are written: step, data.seed\n"
    done = energon("checkpoint", "redist", tmp_path / "in", tmp_path / "one", "--new-world-size", 1, "--json")
    assert done.json == {
        "ranks_before": 2, "ranks": 1, "batch": 6, "folder": f"{tmp_path}/one", "files": ["dp0.json"],
        "left_out": ["step", "data.seed"], "set_aside": [],
    }  # fmt: skip
    written = json.loads((tmp_path / "one/dp0.json").read_text())
    assert list(written) == ["data"]
    assert list(written["data"]) == ["loader"]


def test_a_list_of_all_states_stays_a_list(
    two: list[dict[str, Any]], texts: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    path = save(tmp_path / "run.pt", {"step": 3, "loader": list(two)})
    done = energon("checkpoint", "redist", path, tmp_path / "out", "--new-world-size", 3)
    assert done.code == 0
    states = torch.load(tmp_path / "out/run.pt", weights_only=True)["loader"]
    assert [state["rank"] for state in states] == [0, 1, 2]
    loader = loader_of(texts, 0, 2, restored=True)
    loader.restore_state_global(states)  # and back on two ranks
    assert loader.save_state_rank() == two[0]


def test_files_without_numbers_get_some(texts: Path, tmp_path: Path, energon: RunEnergon) -> None:
    (state,) = states_of(texts, 1)
    path = save(tmp_path / "step_1000.json", state)
    energon("checkpoint", "redist", path, tmp_path / "out", "--new-world-size", 2)
    assert sorted(os.listdir(tmp_path / "out")) == ["step_1000_rank000.json", "step_1000_rank001.json"]


def test_the_converted_files_are_overwritten_only_with_the_flag(
    two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon
) -> None:
    for rank, state in enumerate(two):
        save(tmp_path / f"dp{rank}.json", state)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = energon("checkpoint", "redist", tmp_path, tmp_path, "--new-world-size", 3)
    assert done.code == 1
    assert "2 of the files to write exist already: dp0.json, dp1.json" in done.err
    assert "--force-overwrite" in done.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert energon("checkpoint", "redist", tmp_path, tmp_path, "--new-world-size", 3, "--force-overwrite").code == 0
    assert energon("checkpoint", "info", tmp_path, "--json").json["runs"][0]["ranks"] == 3


def test_files_of_an_earlier_conversion_are_replaced(
    two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon
) -> None:
    for rank, state in enumerate(two):
        save(tmp_path / "in" / f"dp{rank}.json", state)
    command = ("checkpoint", "redist", tmp_path / "in", tmp_path / "out", "--new-world-size")
    assert energon(*command, 4).code == 0
    (tmp_path / "out/notes.txt").touch()
    (tmp_path / "out/dp3.json").write_text("damaged")
    assert energon(*command, 4).code == 0
    assert energon("checkpoint", "info", tmp_path / "out", "--json").json["runs"][0]["ranks"] == 4
    assert (tmp_path / "out/notes.txt").exists()


def test_files_of_further_ranks_are_renamed_and_kept(
    two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon
) -> None:
    for rank, state in enumerate(two):
        save(tmp_path / f"dp{rank}.json", state)
    command = ("checkpoint", "redist", tmp_path, tmp_path, "--force-overwrite", "--new-world-size")
    (tmp_path / "dp1.json.stale").write_text("of an earlier conversion")
    before = (tmp_path / "dp1.json").read_bytes()
    done = energon(*command, 1)
    assert (done.code, "were renamed: dp1.json.stale1" in done.err) == (0, True)
    assert sorted(os.listdir(tmp_path)) == ["dp0.json", "dp1.json.stale", "dp1.json.stale1"]
    assert (tmp_path / "dp1.json.stale1").read_bytes() == before
    assert energon("checkpoint", "info", tmp_path, "--json").json["runs"][0]["ranks"] == 1


def test_a_file_that_cannot_be_written_leaves_none_of_the_others(
    two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon
) -> None:
    for rank, state in enumerate(two):
        save(tmp_path / "in" / f"dp{rank}.json", state)
    (tmp_path / "out/dp2.json").mkdir(parents=True)
    done = energon(
        "checkpoint", "redist", tmp_path / "in", tmp_path / "out", "--new-world-size", 4, "--force-overwrite"
    )
    assert done.code == 1
    assert os.listdir(tmp_path / "out") == ["dp2.json"]


def test_an_impossible_number_of_ranks_is_refused_with_the_possible_ones(
    two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon
) -> None:
    path = save(tmp_path / "run.json", two)
    done = energon("checkpoint", "redist", path, tmp_path / "out", "--new-world-size", 5)
    assert done.code == 1
    assert "a run of 12 lanes cannot be split over 5 ranks" in done.err
    assert "1, 2, 3, 4, 6, 12" in done.err
    assert not (tmp_path / "out").exists()


def test_the_number_of_ranks_is_prompted_for(two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon) -> None:
    path = save(tmp_path / "run.json", two)
    done = energon("checkpoint", "redist", path, tmp_path / "out", "--json", answers=["4"])
    assert (done.code, done.json["ranks"]) == (0, 4)
    assert "New number of ranks (1, 2, 3, 4, 6, 12)" in done.err
    done = energon("checkpoint", "redist", path, tmp_path / "out")
    assert done.code == 2
    assert "--new-world-size N; allowed: 1, 2, 3, 4, 6, 12" in done.err


def test_states_of_several_loaders_or_of_some_ranks_are_refused(
    two: list[dict[str, Any]], texts: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    both = save(tmp_path / "both.json", {"train": two[0], "val": two[0]})
    done = energon("checkpoint", "redist", both, tmp_path / "out", "--new-world-size", 1)
    assert (done.code, "found states at several places: train, val" in done.err) == (1, True)
    one = save(tmp_path / "dp0.json", two[0])
    done = energon("checkpoint", "redist", one, tmp_path / "out", "--new-world-size", 1)
    assert (done.code, "one state of each of the 2 ranks, found those of ranks [0]" in done.err) == (1, True)
    (alone,) = states_of(texts, 1)
    done = energon("checkpoint", "redist", one, save(tmp_path / "dp1.json", alone), tmp_path, "--new-world-size", 1)
    assert (done.code, "found those of ranks [0, 0]" in done.err) == (1, True)


def test_a_place_selects_one_of_several_loaders(
    two: list[dict[str, Any]], texts: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    val = WorkerConfig(rank=0, world_size=1, num_workers=0)
    other = get_savable_loader(get_val_dataset(texts, batch_size=4, worker_config=val)).save_state_rank()
    for rank, state in enumerate(two):
        save(tmp_path / f"in/dp{rank}.json", {"data": {"train": state, "val": [other]}})
    done = energon("checkpoint", "redist", tmp_path / "in", tmp_path / "out", "--new-world-size", 3)
    assert (done.code, "places: data.train, data.val[0]" in done.err, "--place" in done.err) == (1, True, True)
    place = "--place", "data.train"
    done = energon("checkpoint", "redist", tmp_path / "in", tmp_path / "out", "--new-world-size", 3, *place)
    assert done.code == 0
    assert "not copied, since only states are written: data.val" in done.err
    assert json.loads((tmp_path / "out/dp2.json").read_text())["data"]["train"]["rank"] == 2
    done = energon("checkpoint", "redist", tmp_path / "in/dp0.json", tmp_path / "all", "--place", "data.val", "--json",
                   "--new-world-size", 2)  # fmt: skip
    assert done.json["files"] == ["dp0.json"]
    assert [state["rank"] for state in json.loads((tmp_path / "all/dp0.json").read_text())["data"]["val"]] == [0, 1]
    done = energon("checkpoint", "redist", tmp_path / "in/dp0.json", tmp_path / "no", "--place", "data.test")
    assert (done.code, "contains no state of a loader at data.test" in done.err) == (1, True)


def test_empty_paths_are_wrong_usage(two: list[dict[str, Any]], tmp_path: Path, energon: RunEnergon) -> None:
    assert energon("checkpoint").code == 2
    assert energon("checkpoint", "inof").code == 2
    assert energon("checkpoint", "info").code == 2
    assert energon("checkpoint", "info", "").code == 2
    path = save(tmp_path / "run.json", two)
    assert energon("checkpoint", "redist", path).code == 2
    assert energon("checkpoint", "redist", path, "", "--new-world-size", 1).code == 2
    assert energon("checkpoint", "redist", path, tmp_path / "out", "--new-world-size", 0).code == 2
