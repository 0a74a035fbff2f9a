"""Planned runs whose costs were written again: windows keep their size, and no sample is lost or comes twice."""

from __future__ import annotations

import json
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader import WorkerConfig, get_savable_loader
from loader.dataset.opening import folder_at
from loader.errors import StateError
from loader.format.columns.column_files import write_column
from loader.inspect.runs import open_run, trace_step
from loader.order import WindowPlan
from tests.e2e.test_planned_runs import PACKS, Tokens, build, keys_in
from tests.e2e.text_dataset import exclude, write_texts

HEAD = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n"


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let default windows have 8 samples, which grow to those of 4 groups."""
    monkeypatch.setattr("loader.training.datasets.planning.WindowPlan", partial(WindowPlan, samples=8))
    monkeypatch.setattr("loader.order.windows._GROUPS_OF_WINDOW", 4)


def write_costs(folder: Path, cost: int) -> None:
    dataset = folder_at(folder)
    write_column(dataset.storage, dataset.index, "tokens", np.full(len(dataset), cost))


def loader_of(data: Path, *, lanes: int = 1, **options: Any) -> Any:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=lanes)
    options = PACKS | {"plan_window": None, "allow_new_costs": True} | options
    return get_savable_loader(build(data, config, **options))


def position(loader: Any, lane: int = 0) -> int:
    return int(loader.save_state_rank()["lane"].get(str(lane), {}).get("0 read", 0))


def keys_until(loader: Any, end: int) -> list[str]:
    """Return the keys of the samples of lane 0 until it is at a position."""
    keys = list[str]()
    for batch in loader:
        keys += keys_in(batch)
        if position(loader) >= end:
            break
    assert position(loader) == end
    return keys


@pytest.mark.parametrize(("before", "after", "window"), [(10, 20, 64), (20, 10, 32)])
@pytest.mark.parametrize("steps", [1, 7, 9, 16])
def test_each_sample_of_a_pass_comes_once_although_windows_would_grow_or_shrink(
    before: int, after: int, window: int, steps: int, tmp_path: Path
) -> None:
    write_texts(tmp_path / "texts")
    write_costs(tmp_path / "texts", before)
    loader = loader_of(tmp_path, repeat=False)
    given = [key for batch in islice(loader, steps) for key in keys_in(batch)]
    state, begun = loader.save_state_rank(), position(loader)
    assert (state["window"], begun) == (window, len(given))
    write_costs(tmp_path / "texts", after)
    again = loader_of(tmp_path, repeat=False)
    again.restore_state_rank(state)
    passed_over = min(157, -(-begun // window) * window) - begun
    assert position(again) == begun + passed_over
    later = [key for batch in again for key in keys_in(batch)]
    assert len({*given, *later}) == len(given) + len(later) == 157 - passed_over


@pytest.mark.parametrize("is_edited", [False, True])
def test_new_costs_after_an_edit_of_the_mix_lose_no_sample(is_edited: bool, tmp_path: Path) -> None:
    for name, first in (("texts", 0), ("more", 5000)):
        write_texts(tmp_path / name, train=(41, 30), val=(5,), first=first)
        write_costs(tmp_path / name, 1)
    (tmp_path / "mix.yaml").write_text(HEAD + "    blend: [{weight: 1, path: texts}]\n")
    loader = loader_of(tmp_path, name="mix.yaml")
    keys_until(loader, 71)
    first = loader.save_state_rank()
    if is_edited:
        # The window is an epoch of the first dataset, also after another one has come.
        (tmp_path / "mix.yaml").write_text(HEAD + "    blend: [{weight: 1, path: texts}, {weight: 1, path: more}]\n")
    loader = loader_of(tmp_path, name="mix.yaml")
    loader.restore_state_global([first], allow_mix_change=True)
    keys_until(loader, 213)
    state = loader.save_state_rank()
    assert (first["window"], state["window"]) == (71, 71)
    windows = [sorted(keys_until(loader, end)) for end in (284, 355)]
    # With other costs, windows have the same samples.
    for name in ("texts", "more"):
        write_costs(tmp_path / name, 30)
    again = loader_of(tmp_path, name="mix.yaml")
    again.restore_state_rank(state)
    (tmp_path / "state.json").write_text(json.dumps(again.save_state_rank()))
    assert position(again) == 213
    made = [keys_in(batch) for batch in islice(again, 50)]
    keys = [key for batch in made for key in batch]
    assert [sorted(keys[:71]), sorted(keys[71:142])] == windows
    # The state has what a trace needs.
    run = open_run(str(tmp_path / "state.json"), dataset=str(tmp_path / "mix.yaml"), task_encoder=Tokens())
    step = again.save_state_rank()["batch"] - 50
    assert [[sample.key for sample in trace_step(run, step + each)] for each in range(50)] == made


def test_new_costs_after_samples_were_excluded_lose_no_sample(tmp_path: Path) -> None:
    write_texts(tmp_path / "texts", train=(40, 40), val=(5,))
    write_costs(tmp_path / "texts", 1)
    loader = loader_of(tmp_path)
    given = keys_until(loader, 80)
    state = loader.save_state_rank()
    windows = [sorted(keys_until(loader, end)) for end in (160, 240)]
    assert sorted(given) == windows[0] == windows[1]
    # A window has 80 samples; those that are excluded now are holes.
    excluded = {*given[::8]}
    exclude(tmp_path / "texts", *excluded)
    write_costs(tmp_path / "texts", 20)
    again = loader_of(tmp_path)
    again.restore_state_rank(state)
    assert (state["window"], position(again)) == (80, 80)
    kept = [key for key in windows[0] if key not in excluded]
    assert [sorted(keys_until(again, end)) for end in (160, 240)] == [kept, kept]


def test_a_saved_run_keeps_its_windows_when_the_default_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_texts(tmp_path / "texts")
    write_costs(tmp_path / "texts", 10)
    loader = loader_of(tmp_path)
    keys_until(loader, 20)
    state = loader.save_state_rank()
    later = keys_until(loader, 128)
    monkeypatch.setattr("loader.order.windows._GROUPS_OF_WINDOW", 8)
    again = loader_of(tmp_path)
    assert again.save_state_rank()["window"] == 128 != state["window"]
    again.restore_state_rank(state)
    assert keys_until(again, 128) == later
    assert again.save_state_rank()["window"] == state["window"] == 64
    # A new run after a refused state has the windows of its own.
    with pytest.raises(StateError):
        (other := loader_of(tmp_path)).restore_state_rank({**state, "seed": 5}, allow_edited_state=True)
    assert other.save_state_rank()["window"] == 128
