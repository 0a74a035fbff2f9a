"""The code blocks of seed page 001 (quickstart and tutorials) run unchanged.

The blocks are copied from the page, except for the indentation, which its text form has lost. The tests insert only
what a reader has to insert: the path of a real dataset, and the rank.
"""

from __future__ import annotations

import contextlib
import gc
import io
import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from loader import CaptioningSample, get_savable_loader
from tests.cli.make_dataset import write_captions
from tests.seeds.interrupts import interrupted
from tests.source_tree import ROOT

QUICKSTART = """\
from megatron.energon import get_train_dataset, get_loader, WorkerConfig

ds = get_train_dataset(
    '/my/dataset/path',
    batch_size=1,
    shuffle_buffer_size=100,
    max_samples_per_sequence=100,
    worker_config=WorkerConfig.default_worker_config(),
)

loader = get_loader(ds)

for batch in loader:
    # Do something with batch
    # Infer, gradient step, ...
    pass
"""

TUTORIAL_1 = """\
Ratio: 8,1,1
Dataset class: CaptioningWebdataset
Field map: Yes
  image: jpg
  caption: txt  # if txt contains the caption
# or
  caption: json[caption]  # if .json contains {"caption": "My nice image"}
"""

TUTORIAL_2 = """\
from megatron.energon import get_train_dataset, get_loader, WorkerConfig

ds = get_train_dataset(
    '/path/to/your/dataset',
    batch_size=None,
    shuffle_buffer_size=100,
    max_samples_per_sequence=100,
    worker_config=WorkerConfig.default_worker_config(),
)

loader = get_loader(ds)

for batch in loader:
    print(batch)
    break
"""

TUTORIAL_3 = """\
from megatron.energon import get_train_dataset, get_loader, WorkerConfig

loader = get_loader(get_train_dataset(
    '/path/to/your/dataset',
    batch_size=2,
    shuffle_buffer_size=100,
    max_samples_per_sequence=100,
    worker_config=WorkerConfig.default_worker_config(),
))

for batch in loader:
    print(batch)
    break
"""

BLEND = """\
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  # Train dataset, the datasets will be blended according to their weights
  train:
    blend:
      - weight: 5
        path: ./coco
      - weight: 2
        path: ./coyo
  # For val and test, datasets will be concatenated
  val:
    path: ./coco
  test:
    path: ./coyo
"""

TUTORIAL_3_BLENDING = """\
from megatron.energon import get_train_dataset, get_loader, WorkerConfig

loader = get_loader(get_train_dataset(
    'coyo-coco-dataset.yaml',
    batch_size=4,
    shuffle_buffer_size=100,
    max_samples_per_sequence=100,
    worker_config=WorkerConfig.default_worker_config(),
))

for batch in loader:
    print(batch)
    break
"""

TUTORIAL_4 = """\
from megatron.energon import get_train_dataset, get_loader, WorkerConfig
import torch.distributed as dist

worker_config = WorkerConfig(
    rank=SET_YOUR_GLOBAL_DATA_RANK_HERE,
    world_size=SET_YOUR_GLOBAL_WORLD_SIZE_HERE,
    num_workers=2,
)

loader = get_loader(get_train_dataset(
    'coyo-coco-dataset.yaml',
    batch_size=4,
    shuffle_buffer_size=100,
    max_samples_per_sequence=100,
    worker_config=worker_config,
))

for batch in loader:
    print(batch)
    break
"""

TUTORIAL_5 = """\
from megatron.energon import get_train_dataset, get_savable_loader, WorkerConfig

ds = get_train_dataset(
    'coyo-coco-dataset.yaml',
    batch_size=4,
    shuffle_buffer_size=100,
    max_samples_per_sequence=100,
    worker_config=WorkerConfig.default_worker_config(),
)

# Must use the savable loader here. This provides methods to save
# and load the state of the data loader
loader = get_savable_loader(ds)

for i, batch in zip(range(10), loader):
    print(batch)
    break

# Save the state
state = loader.save_state_rank()
# Could save the state now using torch.save()

# ... when loading:
# Could load the state with torch.load()

# Restore the state for a new loader
ds = get_train_dataset(
    'coyo-coco-dataset.yaml',
    batch_size=4,
    shuffle_buffer_size=100,
    max_samples_per_sequence=100,
    worker_config=WorkerConfig.default_worker_config(),
)
loader = get_savable_loader(ds)
loader.restore_state_rank(state)
"""

_PATHS = ("/my/dataset/path", "/path/to/your/dataset", "coyo-coco-dataset.yaml")
_BLEND_FILE = _PATHS[-1]


def answers_in(tutorial: str) -> list[str]:
    """Return the answers to the prompts of ``energon prepare`` in tutorial 1."""
    return [line.partition("#")[0].partition(": ")[2].strip() for line in tutorial.splitlines() if ": " in line]


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dataset prepared as in tutorial 1."""
    folder = write_captions(tmp_path_factory.mktemp("seed") / "captions", shards=10, samples=6)
    ratio, sample_type, by_field_map, image, _, caption = answers_in(TUTORIAL_1)
    prepare(folder, [ratio, "yes", sample_type, by_field_map, image, caption])
    return folder


def prepare(folder: Path, answers: list[str]) -> None:
    """Run ``energon prepare ./`` in the folder, as tutorial 1 does."""
    # The program may not be on PATH when the tests run.
    command = [sys.executable, "-m", "energon_cli", "prepare", "./"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=folder, input="\n".join(answers), text=True, check=True, env=environment)


@pytest.fixture(scope="module")
def blend(captions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Metadataset of tutorial 3, next to the datasets that it references."""
    folder = tmp_path_factory.mktemp("blend")
    shutil.copytree(captions, folder / "coco")
    coyo = write_captions(folder / "coyo", shards=3, samples=5)
    for shard in sorted(coyo.glob("*.tar")):
        shard.rename(shard.with_name(f"coyo_{shard.name}"))
    ratio, sample_type, by_field_map, image, _, caption = answers_in(TUTORIAL_1)
    prepare(coyo, [ratio, "yes", sample_type, by_field_map, image, caption])
    (folder / _BLEND_FILE).write_text(BLEND)
    return folder / _BLEND_FILE


def run(block: str, captions: Path, variables: dict[str, Any]) -> str:
    """Run a block, and return its output."""
    for path in _PATHS:
        block = block.replace(path, str(captions))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "seed 001", "exec"), variables)
    return printed.getvalue()


def ended(variables: dict[str, Any]) -> bool:
    """Delete the variables of a block, and return True if its four worker processes have ended."""
    assert len(multiprocessing.active_children()) == 4
    variables.clear()
    return not multiprocessing.active_children()


def test_the_quickstart_loads_batches_until_it_is_interrupted(captions: Path) -> None:
    variables: dict[str, Any] = {}
    with interrupted(variables, "batch", 5):
        run(QUICKSTART, captions, variables)
    batch = variables["batch"]
    assert isinstance(batch, CaptioningSample)
    assert batch.image.shape == (1, 3, 16, 24)
    assert len(batch.caption) == len(batch.__key__) == 1
    # If the interrupt came while the loop waited for a batch, the workers have ended with the loop.
    variables.clear()
    gc.collect()  # the interrupt's traceback
    assert not multiprocessing.active_children()


def test_tutorial_1_prepares_a_captioning_dataset_from_either_kind_of_caption(captions: Path, tmp_path: Path) -> None:
    again = write_captions(tmp_path / "captions", shards=10, samples=6)
    ratio, sample_type, by_field_map, image, caption, _ = answers_in(TUTORIAL_1)
    prepare(again, [ratio, "yes", sample_type, by_field_map, image, caption])
    for folder, from_part in ((captions, "json[caption]"), (again, "txt")):
        config = yaml.safe_load((folder / ".nv-meta/dataset.yaml").read_text())
        assert config["field_map"] == {"image": "jpg", "caption": from_part}
        assert config["sample_type"]["__class__"] == "CaptioningSample"
        parts = yaml.safe_load((folder / ".nv-meta/split.yaml").read_text())["split_parts"]
        assert parts == {"train": ["shard_{000..007}.tar"], "val": ["shard_008.tar"], "test": ["shard_009.tar"]}


def test_tutorial_2_prints_a_sample(captions: Path) -> None:
    variables: dict[str, Any] = {}
    printed = run(TUTORIAL_2, captions, variables)
    sample = variables["batch"]
    assert printed.startswith("CaptioningSample\n")
    assert sample.__key__ in printed
    assert sample.caption == f"a gradient, number {int(sample.__key__[-6:])}"
    assert sample.caption in printed
    assert variables["batch"].image.shape == (3, 16, 24)
    assert variables["batch"].image.is_floating_point()
    assert ended(variables)


def test_tutorial_3_prints_a_batch_of_two(captions: Path) -> None:
    variables: dict[str, Any] = {}
    printed = run(TUTORIAL_3, captions, variables)
    batch = variables["batch"]
    assert printed == f"{batch}\n"
    assert batch.image.shape == (2, 3, 16, 24)
    assert [f"a gradient, number {int(key[-6:])}" for key in batch.__key__] == batch.caption
    assert len({*batch.__key__}) == 2
    assert ended(variables)


def test_tutorial_3_blends_two_datasets(blend: Path) -> None:
    variables: dict[str, Any] = {}
    printed = run(TUTORIAL_3_BLENDING, blend, variables)
    assert printed == f"{variables['batch']}\n"
    assert variables["batch"].image.shape == (4, 3, 16, 24)
    sources = [source for _, batch in zip(range(105), variables["loader"], strict=False) for source in batch.__key__]
    assert sum(key.startswith("coyo_") for key in sources) == pytest.approx(420 * 2 / 7, abs=12)
    assert ended(variables)


def test_tutorial_4_divides_the_batches_of_a_run_among_its_ranks(blend: Path) -> None:
    def first_batches(ranks: int, batches: int) -> list[list[str]]:
        found = []
        for rank in range(ranks):
            block = TUTORIAL_4.replace("SET_YOUR_GLOBAL_DATA_RANK_HERE", str(rank))
            variables: dict[str, Any] = {}
            printed = run(block.replace("SET_YOUR_GLOBAL_WORLD_SIZE_HERE", str(ranks)), blend, variables)
            assert printed == f"{variables['batch']}\n"
            found.append(variables["batch"].__key__)
            found += [batch.__key__ for _, batch in zip(range(batches - 1), variables["loader"], strict=False)]
            assert len(multiprocessing.active_children()) == 2
            variables.clear()
        return found

    assert first_batches(ranks=3, batches=1) == first_batches(ranks=1, batches=3)


@pytest.mark.parametrize("path", [pytest.param("captions", marks=pytest.mark.slow), "blend"])
def test_tutorial_5_continues_behind_its_output(path: str, request: pytest.FixtureRequest) -> None:
    variables: dict[str, Any] = {}
    printed = run(TUTORIAL_5, request.getfixturevalue(path), variables)
    assert printed == f"{variables['batch']}\n"
    loader, saved = variables["loader"], variables["state"]
    uninterrupted = get_savable_loader(variables["ds"])
    expected = [batch.__key__ for _, batch in zip(range(4), uninterrupted, strict=False)]
    uninterrupted.close()
    assert variables["batch"].__key__ == expected[0]
    assert [batch.__key__ for _, batch in zip(range(3), loader, strict=False)] == expected[1:]

    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    loader.restore_state_rank(torch.load(file, weights_only=True))
    assert next(iter(loader)).__key__ == expected[1]
    del loader, uninterrupted
    assert ended(variables)
