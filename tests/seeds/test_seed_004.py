"""The code blocks of seed page 004 (blending, mixing, sample weights) run unchanged.

The blocks are copied from the page, except for the indentation, which its text form has lost. :data:`PREAMBLE` (task
encoders, a tokenizer, a model) and the paths of real datasets replace what a reader has to insert. The page has three
errors, which :data:`FIXED` corrects with minimal changes.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

from loader import get_savable_loader
from tests.cli.make_dataset import write_captions
from tests.e2e.dataset_tree import prepare
from tests.seeds.interrupts import interrupted

PREAMBLE = """\
from dataclasses import dataclass
from typing import List, Optional, Union

import torch

from megatron.energon import CaptioningSample, DefaultTaskEncoder, ImageSample, MapDataset, EpochizeDataset


@dataclass
class ImageBatch:
    __key__: List[str]
    __restore_key__: tuple
    image: torch.Tensor


@dataclass
class CaptioningBatch:
    __key__: List[str]
    __restore_key__: tuple
    image: torch.Tensor
    caption: List[str]


@dataclass
class ImageWithOptionalCaptionBatch:
    images: torch.Tensor
    captions: List[Optional[List[str]]]


class ImageTask(DefaultTaskEncoder):
    def __init__(self):
        super().__init__(raw_batch_type=ImageBatch)


class CaptioningTask(DefaultTaskEncoder):
    def __init__(self):
        super().__init__(raw_batch_type=CaptioningBatch)
"""

BLENDING = """\
from megatron.energon import get_train_dataset, get_val_dataset, get_loader, BlendDataset, ConcatDataset

# Define your task encoders for ImageTask and CaptioningTask as in the task_encoders.md example.
# ...

# Combine two datasets (here even of different type) with weight 60/40%, i.e. 60% of batches
# will be of type ImageBatch, 40% of batches will be CaptioningBatch
train_loader = get_loader(BlendDataset(
    (
        get_train_dataset(
            '/my/dataset/image_dataset',
            batch_size=32,
            shuffle_buffer_size=100,
            max_samples_per_sequence=100,
            task_encoder=ImageTask(),
        ),
        0.6,
    ),
    (
        get_train_dataset(
            '/my/dataset/captioning_dataset',
            batch_size=32,
            shuffle_buffer_size=100,
            max_samples_per_sequence=100,
            task_encoder=CaptioningTask(),
        ),
        0.4,
    ),
))

val_loader = get_loader(ConcatDataset(
    get_val_dataset('/my/dataset/image_dataset', batch_size=32, task_encoder=ImageTask()),
    get_val_dataset('/my/dataset/captioning_dataset', batch_size=32, task_encoder=CaptioningTask()),
))

# Iterating over train_loader/val_loader will yield batches of type Union[CaptioningBatch, ImageBatch],
# i.e. it will always yield a full batch of CaptioningBatch or ImageBatch. They will not be mixed
# within a single batch.
for sample in train_loader:
    # sample is either CaptioningBatch or ImageBatch
    pass
"""

MIXING = """\
from megatron.energon import MixBatchDataset, get_train_dataset, get_loader, homogeneous_concat_mix

# Define your task encoder for CaptioningTask as in the task_encoders.md example.
# ...

# Combine two datasets (here even of different type) with weight 60/40%, i.e. batches will consist
# 60% of first dataset, and 40% of second dataset.
mix_dataset = MixBatchDataset(
    # It is important to set the inner batch_size to 1, to ensure proper mixing
    (
        get_train_dataset(
            '/my/dataset/captioning_dataset_1',
            batch_size=1,
            shuffle_buffer_size=100,
            max_samples_per_sequence=100,
            task_encoder=CaptioningTask(),
        ),
        6,
    ),
    (
        get_train_dataset(
            '/my/dataset/captioning_dataset_2',
            batch_size=1,
            shuffle_buffer_size=100,
            max_samples_per_sequence=100,
            task_encoder=CaptioningTask(),
        ),
        4,
    ),
    batch_size=32,
    batch_mix_fn=homogeneous_concat_mix,
)

# If needed, epochize here:
#mix_dataset = EpochizeDataset(mix_dataset, num_epochs=10)

# If needed, map the batch
#mix_dataset = MapDataset(mix_dataset, map_fn=lambda batch: batch)

train_loader = get_loader(mix_dataset)

# Iterating over train_loader will yield batches of type CaptioningBatch.
for sample in train_loader:
    # sample is CaptioningBatch
    pass
"""

HETEROGENEOUS = """\
from megatron.energon import get_train_dataset, get_loader, MixBatchDataset, concat_pad

# Define your task encoder for CaptioningTask as in the task_encoders.md example.
# ...

def my_mix_fn(batch: List[Union[CaptioningBatch, ImageBatch]]) -> ImageWithOptionalCaptionBatch:
    # Here, concat the images, and return a list of captions which may contain None.
    return ImageWithOptionalCaptionBatch(
        images=concat_pad([entry.image for entry in batch]),
        captions=[entry.caption if isinstance(entry, CaptioningBatch) else None for entry in batch],
    )

# Combine two datasets (here even of different type) with weight 60/40%, i.e. batches will consist
# 60% of first dataset, and 40% of second dataset.
mix_dataset = MixBatchDataset(
    # It is important to set the inner batch_size to 1, to ensure proper mixing
    (
        get_train_dataset(
            '/my/dataset/image_dataset',
            batch_size=1,
            shuffle_buffer_size=100,
            max_samples_per_sequence=100,
            task_encoder=ImageTask(),
        ),
        6,
    ),
    (
        get_train_dataset(
            '/my/dataset/captioning_dataset',
            batch_size=1,
            shuffle_buffer_size=100,
            max_samples_per_sequence=100,
            task_encoder=CaptioningTask(),
        ),
        4,
    ),
    batch_size=32,
    batch_mix_fn=my_mix_fn,
)

# If needed, epochize here:
#mix_dataset = EpochizeDataset(mix_dataset, num_epochs=10)

# If needed, map the batches
#mix_dataset = MapDataset(mix_dataset, map_fn=lambda batch: batch)

train_loader = get_loader(mix_dataset)

# Iterating over train_loader will yield batches of type ImageWithOptionalCaptionBatch.
for sample in train_loader:
    # sample is ImageWithOptionalCaptionBatch
    pass
"""

WEIGHTED_ENCODER = """\
from dataclasses import dataclass
from typing import Callable, List
import torch
from megatron.energon import CaptioningSample, DefaultTaskEncoder

# Type for intermediate batch, after batching operation
@dataclass
class CaptioningRawBatch:
    # (n,)
    __key__: List[str]
    # (n, c, h, w)
    image: torch.Tensor
    # (n,)
    caption: List[str]

# Typing for the resulting batch data
@dataclass
class WeightedCaptioningBatch:
    __keys__: List[str]
    # (n, c, h, w)
    images: torch.Tensor
    # (n, c)
    text: torch.Tensor
    # scalar, as samples between sources are not intermixed in a single gpu batch
    weight: float

# All the typing is optional
class WeightedCaptioningTaskEncoder(
    DefaultTaskEncoder[
        CaptioningSample,
        CaptioningSample,
        CaptioningRawBatch,
        WeightedCaptioningBatch,
    ]
):
    \"\"\"A simple task encoder for captioning.\"\"\"

    def __init__(
        self,
        tokenizer: Callable[[List[str]], torch.Tensor],
        max_length: int = 128,
        sample_weight: float = 1,
    ):
        super().__init__(batch_type=CaptioningRawBatch)
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.sample_weight = sample_weight

    def encode_batch(self, batch_data: CaptioningRawBatch) -> WeightedCaptioningBatch:
        return WeightedCaptioningBatch(
            __keys__=batch_data.__key__,
            images=batch_data.image,
            text=self.tokenizer(batch_data.caption),
            weight=self.sample_weight,
        )
"""

WEIGHTED_BLEND = """\
# Interleave batches from two data sources. The batches are sampled 50/50% from each dataset (i.e. the
# batches of each dataset appear equally often), but samples from the first dataset have a higher
# weight.
train_loader = get_loader(BlendDataset(
    (
        get_train_dataset(
            '/my/dataset/captioning_dataset1',
            batch_size=32,
            shuffle_buffer_size=100,
            max_samples_per_sequence=100,
            task_encoder=WeightedCaptioningTaskEncoder(sample_weight=0.2),
        ),
        0.5,
    ),
    (
        get_train_dataset(
            '/my/dataset/captioning_dataset2',
            batch_size=32,
            shuffle_buffer_size=100,
            max_samples_per_sequence=100,
            task_encoder=WeightedCaptioningTaskEncoder(sample_weight=0.8),
        ),
        0.5,
    ),
))

for sample in train_loader:
    # sample is WeightedCaptioningBatch
    loss = forward_and_compute_loss(sample.image, sample.text) * sample.weight
    loss.backward()
    optimizer.step()
"""

FIXED = {
    "WeightedCaptioningTaskEncoder(sample_weight=": "WeightedCaptioningTaskEncoder(tokenizer, sample_weight=",
    "num_epochs=10": "length=10",  # a virtual epoch has a length
    "sample.image, sample.text": "sample.images, sample.text",  # the batch has `images`
}

VAL_SAMPLES = 32  # of each dataset

MODEL = """\
from megatron.energon import BlendDataset, get_loader, get_train_dataset

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)


def tokenizer(texts):
    return torch.tensor([[len(text)] for text in texts], dtype=torch.float32)


def forward_and_compute_loss(images, text):
    return (model(text) + images.mean()).mean()
"""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths on the page → the datasets of this test."""
    folder = tmp_path_factory.mktemp("seed")
    image = "sample_type: {__module__: megatron.energon, __class__: ImageSample}\nfield_map: {image: jpg}\n"
    caption = (
        "sample_type: {__module__: megatron.energon, __class__: CaptioningSample}\n"
        "field_map: {image: jpg, caption: txt}\n"
    )
    # The longer names first: they are replaced in this order.
    configs = {"captioning_dataset_1": caption, "captioning_dataset_2": caption, "captioning_dataset1": caption}
    configs |= {"captioning_dataset2": caption, "captioning_dataset": caption, "image_dataset": image}
    for name, config in configs.items():
        write_captions(folder / name, shards=10, samples=8)
        prepare(folder / name, files={"dataset.yaml": config})
    return {f"'/my/dataset/{name}'": repr(str(folder / name)) for name in configs}


@pytest.fixture
def variables() -> Iterator[dict[str, Any]]:
    """Variables of the page in a module, so that its classes can be pickled."""
    page = ModuleType("seed_004_page")
    sys.modules[page.__name__] = page
    yield vars(page)
    del sys.modules[page.__name__]


def fixed(block: str) -> str:
    """Fix the errors of the page."""
    for printed, right in FIXED.items():
        block = block.replace(printed, right)
    return block


def run(block: str, paths: dict[str, str], variables: dict[str, Any]) -> None:
    """Run a block of the page."""
    for path, real in paths.items():
        block = block.replace(path, real)
    exec(compile(block, "seed 004", "exec"), variables)


def run_until_interrupted(
    blocks: list[str], paths: dict[str, str], variables: dict[str, Any], batches: int = 3
) -> None:
    """Run blocks, the last of which ends in an endless loop."""
    for block in blocks[:-1]:
        run(block, paths, variables)
    with interrupted(variables, "sample", batches):
        run(blocks[-1], paths, variables)
    variables["train_loader"].close()


def some(variables: dict[str, Any], count: int) -> list[Any]:
    """Return the first batches of the training loader's dataset, from a new loader."""
    loader = get_savable_loader(variables["train_loader"].dataset)
    try:
        return [batch for _, batch in zip(range(count), loader, strict=False)]
    finally:
        loader.close()


def check_restored(variables: dict[str, Any], keys_of: Any) -> None:
    """Assert that a run over the training dataset continues from a state."""
    dataset = variables["train_loader"].dataset
    expected = [keys_of(batch) for batch in some(variables, 9)]
    first = get_savable_loader(dataset)
    for _ in zip(range(4), first, strict=False):
        pass
    state = first.save_state_rank()
    first.close()
    second = get_savable_loader(dataset)
    second.restore_state_rank(state)
    assert [keys_of(batch) for _, batch in zip(range(5), second, strict=False)] == expected[4:]
    second.close()


def test_blending_gives_whole_batches_of_either_kind(paths: dict[str, str], variables: dict[str, Any]) -> None:
    run_until_interrupted([PREAMBLE, BLENDING], paths, variables)
    kinds = [type(batch).__name__ for batch in some(variables, 100)]
    assert 50 <= kinds.count("ImageBatch") <= 70
    assert kinds.count("CaptioningBatch") == 100 - kinds.count("ImageBatch")
    val = [(type(batch).__name__, len(batch.__key__)) for batch in variables["val_loader"]]
    assert [kind for kind, _ in val] == ["ImageBatch"] * (len(val) // 2) + ["CaptioningBatch"] * (len(val) // 2)
    assert sum(size for _, size in val) == 2 * VAL_SAMPLES
    check_restored(variables, lambda batch: batch.__key__)
    variables["val_loader"].close()
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_mixing_puts_both_datasets_into_each_batch(paths: dict[str, str], variables: dict[str, Any]) -> None:
    run_until_interrupted([PREAMBLE, MIXING], paths, variables)
    for batch in some(variables, 4):
        assert type(batch).__name__ == "CaptioningBatch"
        assert batch.image.shape == (32, 3, 16, 24)
        assert len(batch.caption) == len(batch.__key__) == 32
    check_restored(variables, lambda batch: batch.__key__)


@pytest.mark.slow
def test_mixing_of_two_kinds_gives_what_the_mixer_makes(paths: dict[str, str], variables: dict[str, Any]) -> None:
    run_until_interrupted([PREAMBLE, HETEROGENEOUS], paths, variables)
    missing = 0
    for batch in some(variables, 10):
        assert batch.images.shape == (32, 3, 16, 24)
        assert len(batch.captions) == 32
        missing += sum(caption is None for caption in batch.captions)
    assert missing == pytest.approx(320 * 0.6, abs=16)
    check_restored(variables, lambda batch: batch.captions)


def test_sample_weights_reach_the_loss(paths: dict[str, str], variables: dict[str, Any]) -> None:
    run_until_interrupted([PREAMBLE, WEIGHTED_ENCODER, MODEL, fixed(WEIGHTED_BLEND)], paths, variables)
    assert isinstance(variables["loss"], torch.Tensor)
    batches = some(variables, 40)
    assert {batch.weight for batch in batches} == {0.2, 0.8}
    assert 14 <= sum(batch.weight == 0.2 for batch in batches) <= 26
    check_restored(variables, lambda batch: (batch.__keys__, batch.weight))


@pytest.mark.parametrize("line", ["EpochizeDataset(mix_dataset, num_epochs=10)", "MapDataset(mix_dataset, map_fn"])
def test_commented_code_of_the_page_runs(paths: dict[str, str], variables: dict[str, Any], line: str) -> None:
    block = fixed(MIXING.replace(f"#mix_dataset = {line}", f"mix_dataset = {line}"))
    assert block != MIXING
    run(PREAMBLE, paths, variables)
    run(block.partition("# Iterating over")[0], paths, variables)
    assert next(iter(variables["train_loader"])).image.shape == (32, 3, 16, 24)
    variables["train_loader"].close()
