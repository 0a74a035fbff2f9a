"""Hooks that encode samples, with and without packing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loader import (
    ConfigError,
    DefaultTaskEncoder,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    random_access,
    stateless,
)
from tests.e2e.text_dataset import write_texts


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("hooks") / "texts", train=(9, 11), val=(4,))


class Words(DefaultTaskEncoder[Any, Any, Any, Any]):
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[:2], samples[2:]]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return "+".join(text_of(sample) for sample in samples)

    def batch(self, samples: list[Any]) -> list[str]:
        return [text_of(sample) for sample in samples]


class Encode(Words):
    @stateless
    def encode_sample(self, sample: Any) -> Any:
        return text_of(sample) + " encoded"


class Pre(Words):
    @stateless
    def preencode_sample(self, sample: Any) -> Any:
        return text_of(sample) + " before"


class Post(Words):
    @stateless
    def postencode_sample(self, sample: Any) -> Any:
        return text_of(sample) + " after"


class PrePost(Pre, Post):
    pass


class EncodePost(Encode, Post):
    pass


class EncodePre(Encode, Pre):
    pass


class EncodePrePost(Encode, PrePost):
    pass


class Several(Words):
    @stateless
    def encode_sample(self, sample: Any) -> Iterator[str]:
        yield from (f"{text_of(sample)} {number}" for number in range(3))


class SeveralPost(Several, Post):
    pass


def text_of(sample: Any) -> str:
    return sample if isinstance(sample, str) else str(sample.text)


def loader_of(folder: Path, encoder: Any, *, packing: int | None = None, training: bool = True) -> Any:
    options: dict[str, Any] = {
        "batch_size": 2,
        "packing_buffer_size": packing,
        "task_encoder": encoder,
        "worker_config": WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1),
    }
    if not training:
        return get_savable_loader(get_val_dataset(folder, **options))
    return get_savable_loader(
        get_train_dataset(folder, shuffle_buffer_size=None, max_samples_per_sequence=None, **options)
    )


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("encoder", "marks", "packed"),
    [
        (Words, "", ""),
        (Encode, " encoded", " encoded"),
        (Pre, " before", " before"),
        (Post, " after", " after"),
        (PrePost, " before after", " before after"),
        (EncodePost, " encoded after", " encoded after"),
        (EncodePre, " encoded", " before"),
        (EncodePrePost, " encoded", " before after"),
    ],
)
def test_hooks_of_samples(texts: Path, encoder: type[Words], marks: str, packed: str, *, training: bool) -> None:
    """The same hooks are called without packing, unless the encoder defines ``encode_sample`` for that."""
    for sample in next(iter(loader_of(texts, encoder(), training=training))):
        assert re.fullmatch(rf"text \d+{marks}", sample)
    for sample in next(iter(loader_of(texts, encoder(), packing=4, training=training))):
        assert re.fullmatch(rf"text \d+{packed}\+text \d+{packed}", sample)


def test_random_access_calls_the_same_hooks(texts: Path) -> None:
    """A dataset with random access encodes samples in both steps."""
    samples = random_access(texts, split_part="val", task_encoder=PrePost())
    assert samples[0].endswith(" before after")


def test_state_in_the_middle_of_two_generators(texts: Path) -> None:
    """A run whose both steps are generators resumes exactly."""

    class Both(Words):
        @stateless
        def preencode_sample(self, sample: Any) -> Iterator[str]:
            yield from (f"{text_of(sample)} a{number}" for number in range(3))

        @stateless
        def postencode_sample(self, sample: Any) -> Iterator[str]:
            yield from (f"{text_of(sample)} b{number}" for number in range(5))

    straight = list(itertools.islice(iter(loader_of(texts, Both())), 30))
    assert straight[0] == [straight[0][0][:-1] + "0", straight[0][0][:-1] + "1"]
    for steps in (1, 4, 13):
        loader = loader_of(texts, Both())
        list(itertools.islice(iter(loader), steps))
        resumed = loader_of(texts, Both())
        resumed.restore_state_rank(loader.save_state_rank())
        assert list(itertools.islice(iter(resumed), 30 - steps)) == straight[steps:]


class Numbers(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Records the numbers that its hooks see."""

    @stateless
    def encode_sample(self, sample: Any) -> Iterator[Any]:
        for _ in range(3):
            yield ["sample", self.current_batch_index, self.current_sample_index]

    def batch(self, samples: list[Any]) -> list[Any]:
        return [*samples, ["batch", self.current_batch_index, self.current_sample_index]]

    @stateless
    def encode_batch(self, batch: list[Any]) -> list[Any]:
        return [*batch, ["encoded", self.current_batch_index, self.current_sample_index]]


def test_numbers_in_hooks(texts: Path) -> None:
    """Items of a generator have the number of its sample, and hooks of batches that of the batch."""
    assert list(itertools.islice(iter(loader_of(texts, Numbers())), 3)) == [
        [["sample", 0, 0], ["sample", 0, 0], ["batch", 0, 0], ["encoded", 0, 0]],
        [["sample", 1, 0], ["sample", 1, 1], ["batch", 1, 1], ["encoded", 1, 1]],
        [["sample", 2, 1], ["sample", 2, 1], ["batch", 2, 2], ["encoded", 2, 2]],
    ]


@pytest.mark.parametrize("hook", ["select_samples_to_pack", "pack_selected_samples"])
def test_packing_without_its_hooks_is_refused_when_the_dataset_is_built(texts: Path, hook: str) -> None:
    class Half(DefaultTaskEncoder[Any, Any, Any, Any]):
        """Defines the other hook only."""

    other = "pack_selected_samples" if hook.startswith("select") else "select_samples_to_pack"
    setattr(Half, other, getattr(Words, other))
    with pytest.raises(ConfigError, match=f"to be packed, but Half does not define {hook}"):
        get_val_dataset(texts, batch_size=2, packing_buffer_size=4, task_encoder=Half())
