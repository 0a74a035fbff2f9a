"""Use files as a user does: commands, loading, restoring, and look-ups. Each function returns what is printed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from energon_cli.main import main
from loader import (
    DefaultTaskEncoder,
    EnergonError,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    random_access,
)
from loader.av import AVDecoder
from loader.dataset.opening import folder_at
from loader.dataset.tar import tar_index
from loader.metadataset.plans.plan_leaves import plan_leaves
from loader.stores.aux_store import open_aux_store
from loader.training.states.files import read_state_file

__all__ = [
    "Step",
    "command",
    "commands",
    "decode_media",
    "join_samples",
    "load",
    "loading",
    "look_up",
    "parts",
    "rank_states",
    "restoring",
    "stores",
]

Step = Callable[[Path], str]
_KEYS = (
    "00",
    "0.tar/00",
    "a.mp4",
    "00.jpg",
    "0.tar/11.txt",
    "3",
    "3.json",
    "../x",
    "/etc/passwd",
    "\x1b[31m",
    "\ud800",
)


class _Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    def batch(self, samples: list[Any]) -> list[Any]:
        return samples


class _Raw(_Encoder):
    decoder = None


def join_samples(one: Any, other: Any) -> Any:
    """Join samples: keep the first."""
    del other
    return one


def command(*arguments: str) -> str:
    """Run a command, and return what it prints; what ``--json`` prints has to be JSON."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        main(arguments)
    if "--json" in arguments and out.getvalue():
        _check_json(out.getvalue())
    return out.getvalue() + err.getvalue()


def _check_json(text: str) -> None:
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError:
        for line in text.splitlines():
            json.loads(line, parse_constant=_refuse)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def commands(*lines: str) -> Step:
    """Return a step that runs commands; a word ``@name`` is a path in the folder."""

    def run(folder: Path) -> str:
        return "\n".join(
            command(*[str(folder / word[1:]) if word.startswith("@") else word for word in line.split()])
            for line in lines
        )

    return run


def _config() -> WorkerConfig:
    return WorkerConfig(rank=0, world_size=1, num_workers=0)


def _dataset(path: Path, *, raw: bool = True, config: WorkerConfig | None = None, **options: Any) -> Any:
    return get_train_dataset(
        path,
        batch_size=2,
        shuffle_buffer_size=4,
        max_samples_per_sequence=3,
        task_encoder=_Raw() if raw else _Encoder(),
        worker_config=config or _config(),
        **options,
    )


def rank_states(path: Path, ranks: int) -> list[dict[str, Any]]:
    """Return the states of all ranks of a run, after a micro-batch."""
    states = []
    for rank in range(ranks):
        loader = get_loader(_dataset(path, config=WorkerConfig(rank=rank, world_size=ranks, num_workers=0)))
        next(iter(loader))
        states.append(loader.save_state_rank())
    return states


def load(path: Path, *, raw: bool = True, **options: Any) -> str:
    """Load some micro-batches for training, rebuild a sample and restore the position, and validate."""
    loader = get_loader(_dataset(path, raw=raw, **options))
    for batch in islice(loader, 6):
        sample = batch[0]
        loader.restore_sample(sample["__restore_key__"] if isinstance(sample, dict) else sample.__restore_key__)
    again = get_loader(_dataset(path, raw=raw, **options))
    again.restore_state_rank(loader.save_state_rank())
    next(iter(again), None)
    return str(loader)


def loading(name: str, **options: Any) -> Step:
    """Return a step that loads a dataset, for training and for validation."""

    def run(folder: Path) -> str:
        text = load(folder / name, **_with_paths(options, folder))
        config: dict[str, Any] = {"worker_config": _config(), "batch_size": 3, "task_encoder": _Encoder()}
        kept = {key: value for key, value in _with_paths(options, folder).items() if key != "raw"}
        for _ in islice(get_loader(get_val_dataset(folder / name, **config, **kept)), 3):
            pass
        access = random_access(folder / name, task_encoder=_Encoder(), **kept)
        for number in range(min(len(access), 3)):
            access[number]
        return text

    return run


def _with_paths(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    return {key: folder / value if key == "meta_folder" else value for key, value in options.items()}


def look_up(name: str) -> Step:
    """Return a step that looks up samples in the index of a dataset of tar shards, and describes the dataset."""

    def run(folder: Path) -> str:
        dataset = folder_at(folder / name)
        index = tar_index(dataset)
        for sample in range(min(len(index), 20)):
            with suppress(EnergonError):
                index.parts(sample)
                for part in index.part_names:
                    index.part(sample, part)
                index.find(index.full_key(sample))
                dataset.read_parts(sample)
        for shard in index.shards:
            dataset.index.samples_of(shard)
        return ""

    return run


def parts(name: str) -> Step:
    """Return a step that decodes the parts of all samples in the forms that decoders have."""

    def run(folder: Path) -> str:
        messages = []
        dataset = folder_at(folder / name)
        for sample in range(min(len(dataset.index), 4)):
            for part, data in dataset.read_parts(sample).items():
                messages += [_decoded(data)] if part in {"wav", "mp3", "flac", "mp4", "mkv", "avi"} else []
        return "\n".join(messages)

    return run


def decode_media(folder: Path) -> str:
    """Decode plain files of audio and video."""
    return "\n".join(_decoded(path.read_bytes()) for path in sorted((folder / "plain").glob("a.*")))


def _decoded(data: bytes) -> str:
    decoder = AVDecoder(data)
    methods: tuple[Callable[[], Any], ...] = (
        *(decoder.get_metadata, decoder.get_video, decoder.get_audio, decoder.get_spans, decoder.get_video_duration),
        partial(decoder.get_metadata, get_audio_num_samples=True),
        partial(decoder.get_video_clips, [(0, 1), (3, 4)], "frames"),
        partial(decoder.get_clips, [(0.1, 0.3)], [(0.0, 0.2)], video_out_frame_size=(8, 8)),
    )
    messages = []
    for method in methods:
        try:
            method()
        except (EnergonError, ValueError) as error:  # ValueError is the documented one
            messages.append(str(error))
    return "\n".join(messages)


def stores(folder: Path) -> str:
    """Read auxiliary stores: those of a metadataset, and of a folder without metadata."""
    urls = {"photos", "plain", "lines.jsonl", "tokens.bin", "texts", "filesystem://plain"}
    for leaf in plan_leaves(folder / "mix.yaml", split_part="train", training=True):
        urls |= {store.path for store in leaf.request.aux.values()}
    return "\n".join(message for url in sorted(urls) for message in _read_store(url, folder))


def _read_store(url: str, folder: Path) -> Iterator[str]:
    scheme, _, path = url.rpartition("://")
    try:
        store = open_aux_store(f"{scheme}://{folder / path}" if scheme else str(folder / path))
    except EnergonError as error:
        yield str(error)
        return
    for key in _KEYS:
        for read in (store.__getitem__, store.get_media_metadata):
            try:
                read(key)
            except EnergonError as error:
                yield str(error)


def restoring(*names: str) -> Step:
    """Return a step that restores the states of files in every way there is."""

    def run(folder: Path) -> str:
        messages: list[str] = []
        for name in names:
            with _noted(messages):
                states = [found.state.to_plain() for found in read_state_file(folder / name).states]
                _restore(folder / "texts", states, messages)
            with _noted(messages):
                _restore(folder / "texts", _content(folder / name), messages)
        return "\n".join(messages)

    return run


@contextmanager
def _noted(messages: list[str]) -> Iterator[None]:
    """Suppress an error of this library, and note its text."""
    try:
        yield
    except EnergonError as error:
        messages.append(str(error))


def _content(path: Path) -> Any:
    """Read a file without the checks of this library, as training scripts do."""
    if path.suffix == ".json":
        try:
            return json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            return None
    import torch

    try:
        return torch.load(path, weights_only=True)
    except Exception:  # noqa: BLE001 - errors of torch, not of this library
        return None


def _restore(path: Path, states: Any, messages: list[str]) -> None:
    one = states[0] if isinstance(states, list) and states else states
    for number in range(2):
        with _noted(messages):
            loader = get_loader(_dataset(path, config=WorkerConfig(rank=number, world_size=2, num_workers=0)))
            loader.restore_state_rank(states[number] if isinstance(states, list) and number < len(states) else one)
            next(iter(loader))
    for restore in ("restore_state_global", "load_state_dict"):
        for state in (states, one):
            with _noted(messages):
                loader = get_loader(_dataset(path))
                getattr(loader, restore)(state)
                next(iter(loader))
    _restore_samples(path, one, messages)


def _restore_samples(path: Path, state: Any, messages: list[str]) -> None:
    """Rebuild samples by keys that a state of a buffer might hold."""
    loader = get_loader(_dataset(path))
    for key in _values(state):
        with _noted(messages):
            loader.restore_sample(key)


def _values(document: Any, depth: int = 0) -> Iterator[Any]:
    yield document
    if depth < 3 and isinstance(document, dict | list):
        for value in islice(document.values() if isinstance(document, dict) else document, 3):
            yield from _values(value, depth + 1)
