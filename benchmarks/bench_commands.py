"""Run our commands and those of megatron-energon, each from the same state of the same files."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from make_data import DEFAULTS, Recipe, make_dataset, make_shard
from processes import CommandFailedError, run

__all__ = ["Bench", "CommandFailedError", "alone_in"]

SPLIT = ("--split-ratio", "8,1,1")
PREPARE = ("prepare", "--non-interactive", "--num-workers", "2", "--no-progress")
TYPES = {
    "tiny": ("--sample-type", "TextSample", "--field-map", '{"text": "txt"}'),
    "images": ("--sample-type", "CaptioningSample", "--field-map", '{"image": "jpg", "caption": "txt"}'),
}
CHANGED_SHARD = 12

# Times only the opening, not the imports, which every training script needs.
OPEN_INDEX = """
import sys, time
from loader.dataset.opening import folder_at
path, samples, key = sys.argv[1], int(sys.argv[2]), sys.argv[3]
start = time.perf_counter()
index = folder_at(path).index
count = len(index)
opened = time.perf_counter()
found = index.find(key)
looked_up = time.perf_counter()
if count != samples or len(found) != 1:
    sys.exit(f"expected {samples} samples and {key} once, got {count} and {found}")
print(opened - start, looked_up - opened)
"""


@dataclass(slots=True, kw_only=True)
class Bench:
    """The datasets and the two programs.

    Args:
        folder: The folder for the datasets.
        peer_bin: The ``bin`` folder of the environment with megatron-energon.
        quick: True uses a twentieth of the samples.
    """

    folder: Path
    peer_bin: Path
    quick: bool = False
    _state: dict[str, str] = field(default_factory=dict)  # kind → the last prepare command of that dataset

    def __post_init__(self) -> None:
        if not self.peer.exists():
            raise SystemExit(f"no megatron-energon at {self.peer}; run: make bench-prepare")

    @property
    def own(self) -> Path:
        return Path(sys.executable).with_name("energon")

    @property
    def peer(self) -> Path:
        return self.peer_bin / "energon"

    # ------------------------------------------------------------------------------------------------ measurements

    def time_prepare(self, kind: str, variant: str) -> Mapping[str, float]:
        return {"seconds": self._prepare(kind, variant, with_memory=False)["seconds"]}

    def memory_of_prepare(self, kind: str, variant: str) -> Mapping[str, float]:
        return self._prepare(kind, variant, with_memory=True)

    def time_prepare_again(self) -> Mapping[str, float]:
        """Prepare a dataset again after one shard changed: other contents, and one sample less."""
        folder = self._prepared("tiny", "ours, compat")
        recipe = self._recipe("tiny")
        make_shard(folder, replace(recipe, salt=1), CHANGED_SHARD, omit=1)
        self._state.pop("tiny")
        try:
            os.sync()
            seconds = run([self.own, *PREPARE, "--compat", folder]).seconds
            check_count(folder, recipe.samples - 1)
        finally:
            make_shard(folder, recipe, CHANGED_SHARD)
        return {"seconds": seconds}

    def time_start(self, program: Path, *arguments: str) -> Mapping[str, float]:
        return {"seconds": run([program, *arguments]).seconds}

    def time_info(self, program: Path) -> Mapping[str, float]:
        return self.time_start(program, "info", str(self._prepared("tiny", "ours, typed")))

    def time_lint(self, program: Path, *arguments: str) -> Mapping[str, float]:
        return self.time_start(program, "lint", *arguments, str(self._prepared("images", "ours, typed")))

    def time_open(self, kind: str) -> Mapping[str, float]:
        folder = self._prepared(kind, "ours, compat")
        samples = self._recipe(kind).samples
        answer = run([sys.executable, "-c", OPEN_INDEX, folder, str(samples), f"{samples - 1:09d}"]).stdout.split()
        return {"seconds": float(answer[0]), "first look-up": float(answer[1])}

    # ------------------------------------------------------------------------------------------------------- states

    def _recipe(self, kind: str) -> Recipe:
        recipe = DEFAULTS[kind]
        return replace(recipe, samples=recipe.samples // 20) if self.quick else recipe

    def _unprepared(self, kind: str) -> Path:
        """Return the dataset without prepared files, and with its shards in the page cache."""
        folder = self.folder / (f"{kind}-quick" if self.quick else kind)
        recipe = self._recipe(kind)
        first_use = kind not in self._state
        make_dataset(folder, recipe)
        shutil.rmtree(folder / ".nv-meta", ignore_errors=True)
        for path in folder.glob("*.tar.idx"):
            path.unlink()
        self._state[kind] = "not prepared"
        if first_use:
            for path in folder.glob("*.tar"):
                with path.open("rb") as file:
                    while file.read(1 << 24):
                        pass
        os.sync()  # pending writes of the previous run must not slow this one
        return folder

    def _prepared(self, kind: str, variant: str) -> Path:
        """Return the dataset as prepared by one variant of the command."""
        if self._state.get(kind) != variant:
            self._prepare(kind, variant, with_memory=False)
        return self.folder / (f"{kind}-quick" if self.quick else kind)

    def _prepare(self, kind: str, variant: str, *, with_memory: bool) -> Mapping[str, float]:
        """Prepare an unprepared dataset."""
        folder = self._unprepared(kind)
        result = run([*self._prepare_command(kind, variant), folder], with_memory=with_memory)
        check_count(folder, self._recipe(kind).samples)
        self._state[kind] = variant
        return {
            "seconds": result.seconds,
            "bytes": result.peak_bytes,
            "private bytes": result.peak_private_bytes,
        }

    def _prepare_command(self, kind: str, variant: str) -> list[str | Path]:
        commands: dict[str, list[str | Path]] = {
            "ours, compat": [self.own, *PREPARE, *SPLIT, "--skip-dataset-yaml", "--compat"],
            "ours, no compat": [self.own, *PREPARE, *SPLIT, "--skip-dataset-yaml", "--no-compat"],
            "peer": [self.peer, *PREPARE, *SPLIT, "--skip-dataset-yaml"],
            "ours, typed": [self.own, *PREPARE, *SPLIT, *TYPES.get(kind, ()), "--compat"],
            "peer, typed": [self.peer, *PREPARE, *SPLIT, *TYPES.get(kind, ())],
        }
        return commands[variant]


def check_count(folder: Path, samples: int) -> None:
    """Check that a prepared dataset contains all its samples.

    Raises:
        CommandFailedError: Samples are missing, so the time is meaningless.
    """
    counts = json.loads((folder / ".nv-meta" / ".info.json").read_text())["shard_counts"]
    if sum(counts.values()) != samples:
        raise CommandFailedError(f"expected {samples} samples in {folder}, found {sum(counts.values())}")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, so that no second benchmark uses the same files."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(f"another benchmark uses {folder}; pass another --work-folder") from None
        yield
