"""Use files as a user does: load, look up, and run the commands."""

from __future__ import annotations

import io
import json
import shutil
import wave
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from energon_cli.main import main
from loader import DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset
from loader.format.dataset_folder import DatasetFolder
from loader.format.prepare.plan import PreparePlan, SplitRequest
from loader.format.prepare.run import run_prepare
from loader.metadataset.joins.open_join import open_join
from loader.metadataset.joins.prepare_metadataset import prepare_metadataset
from loader.metadataset.plans.plan_leaves import plan_leaves
from loader.training.states.files import read_state_file
from tests.e2e.dataset_tree import write_shard

__all__ = ["USES", "Use", "write_files"]

_CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
_BLEND = {"blend": [{"path": "texts", "weight": 2}, {"path": "others"}]}
_JOIN = {"join": [{"path": "texts"}, {"path": "others"}], "joiner": {"__module__": "x", "__class__": "Y"}}


@dataclass(frozen=True)
class Use:
    """A use of the files of a folder, and the patterns of the files that it reads."""

    files: tuple[str, ...]
    run: Callable[[Path], str]


def write_files(folder: Path) -> None:
    """Write datasets, metadatasets, a join and states into a folder."""
    for name in ("texts", "others"):
        for shard in range(2):
            samples = {f"{shard}{number}": {"txt": b"a %d" % number, "wav": _wav()} for number in range(5)}
            write_shard(folder / f"{name}/{shard}.tar", samples)
        run_prepare(
            PreparePlan(
                path=str(folder / name),
                split=SplitRequest(ratio={"train": 1.0}),
                files={"dataset.yaml": _CRUDE},
                workers=1,
            )
        )
    for name, split in (("mix", _BLEND), ("join", _JOIN)):
        document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": split}}
        (folder / f"{name}.yaml").write_text(json.dumps(document, indent=1))
    prepare_metadataset(folder / "join.yaml")
    loader = _loader(folder / "texts")
    next(iter(loader))
    state = loader.save_state_rank()
    torch.save(state, folder / "state.pt")
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "lines.jsonl").write_text("".join(json.dumps({"id": n, "text": f"t{n}"}) + "\n" for n in range(9)))
    _command("prepare", str(folder / "lines.jsonl"))


def _wav() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as audio:
        audio.setnchannels(1)
        audio.setsampwidth(2)
        audio.setframerate(8000)
        audio.writeframes(bytes(200))
    return file.getvalue()


class _Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = None

    def batch(self, samples: list[Any]) -> list[Any]:
        return samples


def _loader(path: Path) -> Any:
    dataset = get_train_dataset(
        path,
        batch_size=2,
        shuffle_buffer_size=4,
        max_samples_per_sequence=3,
        task_encoder=_Encoder(),
        worker_config=WorkerConfig.default_worker_config(num_workers=0),
    )
    return get_loader(dataset)


def _command(*arguments: str) -> str:
    """Run a command, and return what it prints."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        main(arguments)
    return out.getvalue() + err.getvalue()


def _load(folder: Path) -> str:
    for _ in islice(_loader(folder / "texts"), 8):
        pass
    index = DatasetFolder(folder / "texts").tar_index
    for sample in range(min(len(index), 20)):
        index.parts(sample)
        index.part(sample, "txt")
        index.find(index.full_key(sample))
    return ""


def _load_mix(folder: Path) -> str:
    for _ in islice(_loader(folder / "mix.yaml"), 4):
        pass
    return ""


def _open_join(folder: Path) -> str:
    for leaf in plan_leaves(folder / "join.yaml", split_part="train", training=True):
        if leaf.join is not None:
            open_join(leaf.join)
    return ""


def _restore(folder: Path) -> str:
    for name in ("state.pt", "state.json"):
        for found in read_state_file(folder / name).states:
            loader = _loader(folder / "texts")
            loader.restore_state_rank(found.state.to_plain())
            next(iter(loader))
    return ""


def _load_lines(folder: Path) -> str:
    for _ in islice(_loader(folder / "lines.jsonl"), 4):
        pass
    return _command("info", str(folder / "lines.jsonl"))


def _prepare(folder: Path) -> str:
    shutil.rmtree(folder / "texts/.nv-meta")
    return _command("prepare", str(folder / "texts"), "--yes", "--media-metadata-by-header", "--num-workers", "1")


def _commands(*commands: tuple[str, ...]) -> Callable[[Path], str]:
    def run(folder: Path) -> str:
        found: Iterator[str] = (
            _command(*[str(folder / one[1:]) if one[0] == "@" else one for one in command]) for command in commands
        )
        return "\n".join(found)

    return run


_DATASET = ("texts/*.tar", "texts/.nv-meta/**/*")
_MIX = ("mix.yaml", "texts/.nv-meta/*")
USES = (
    Use(_DATASET, _load),
    Use(_DATASET, _commands(("info", "@texts"), ("preview", "@texts", "-n", "2"))),
    Use(_DATASET, _commands(("lint", "@texts"))),
    Use(("texts/*.tar",), _prepare),
    Use(_MIX, _load_mix),
    Use(_MIX, _commands(("info", "@mix.yaml"), ("lint", "@mix.yaml"))),
    Use(("join.yaml", "join.yaml.joins/*"), _open_join),
    Use(("state.pt", "state.json"), _restore),
    Use(
        ("state.pt", "state.json"),
        _commands(("checkpoint", "info", "@state.pt"), ("checkpoint", "info", "@state.json")),
    ),
    Use(("lines.jsonl", "lines.jsonl.*"), _load_lines),
)
