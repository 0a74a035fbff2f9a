"""An ordinary restore passes few functions: parse, compare, set; the chain opens with the next iteration."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import loader
from tests.e2e.text_dataset import write_texts

ROOMS = ("training/loaders", "training/states")
PACKAGE = Path(loader.__file__).parent
MAX_FUNCTIONS = 12  # of these rooms; comprehensions do not count
MAX_FILES = 5


def open_loader(folder: Path) -> loader.SavableDataLoader[Any]:
    config = loader.WorkerConfig(rank=0, world_size=1, num_workers=0)
    return loader.get_loader(
        loader.get_train_dataset(
            folder, batch_size=2, shuffle_buffer_size=10, max_samples_per_sequence=None, worker_config=config
        ),
        stats=False,
    )


def test_a_restore_of_the_same_run_passes_few_functions(tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "d")
    first, second = open_loader(folder), open_loader(folder)
    for _ in zip(range(5), first, strict=False):
        pass
    state = first.save_state_rank()
    called: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        file, name = Path(frame.f_code.co_filename), frame.f_code.co_qualname
        if event == "call" and file.is_relative_to(PACKAGE) and "<" not in name:
            called.add((file.relative_to(PACKAGE).as_posix(), name))

    sys.setprofile(note)
    try:
        second.restore_state_rank(state)
    finally:
        sys.setprofile(None)
    own = sorted(one for one in called if one[0].startswith(ROOMS))
    assert len(own) <= MAX_FUNCTIONS, own
    assert len({file for file, _ in own}) <= MAX_FILES, own
    assert second.save_state_rank() == state
