"""The sample types.

Their fields are also in ``loader/format/documents/sample_types.py``, for programs that must not import torch.

Boxes are tensors of shape (N, 4) or (N, 5): x, y, width, height and, where known, confidence.
"""

from __future__ import annotations

from dataclasses import field, fields
from types import NoneType
from typing import Any, Self

from torch import Tensor

from .sample_dataclass import ExtendableDataclassMixin, PinMemoryMixin, edataclass
from .source_info import SourceInfo

__all__ = [
    "CaptioningSample",
    "CrudeSample",
    "ImageClassificationSample",
    "ImageSample",
    "InterleavedSample",
    "MultiChoiceVQASample",
    "OCRSample",
    "Sample",
    "SimilarityInterleavedSample",
    "TextSample",
    "VQAOCRSample",
    "VQASample",
    "VidQASample",
]


class CrudeSample(dict[str, Any]):
    """A sample as a dict of its parts (``sample["jpg"]``) and its ``__key__``, until a cooker makes a sample of it.

    Attributes:
        leaf: Which of a chain's datasets it is from, where it is going to be cooked.
    """

    source: int | None = None


@edataclass
class Sample(PinMemoryMixin, ExtendableDataclassMixin):
    """What all samples have.

    Args:
        __key__: Its name, ``<shard>/<key>``, unique in its dataset.
        __restore_key__: What finds it again: nested tuples of str and int.
        __subflavors__: Labels of the dataset that it is from.
        __sources__: Where its parts lie.
    """

    # Factories leave no default in the class. It would become that of a field that a plain dataclass declares again, as
    # training code does, and no field without a default could follow.
    __key__: str
    __restore_key__: tuple[Any, ...] = field(default_factory=tuple, repr=False)
    __subflavors__: dict[str, Any] | None = field(default_factory=NoneType, repr=False)
    __sources__: tuple[SourceInfo, ...] | None = field(default_factory=NoneType, repr=False)

    @classmethod
    def derive_from(cls, base_sample: Sample, **fields_given: Any) -> Self:
        """Make a sample of this type that comes from ``base_sample``: same key and sources, all other fields as given.

        >>> import torch
        >>> image = ImageSample(__key__="s.tar/0", image=torch.zeros(3, 2, 2))
        >>> TextSample.derive_from(image, text="black")
        TextSample(__key__='s.tar/0', text='black')
        """
        return cls(**{name: getattr(base_sample, name) for name in _SHARED} | fields_given)


_SHARED = tuple(known.name for known in fields(Sample))


@edataclass
class TextSample(Sample):
    """Text."""

    text: str


@edataclass
class ImageSample(Sample):
    """A picture: by default a float tensor (3, H, W)."""

    image: Tensor


@edataclass
class CaptioningSample(Sample):
    """A picture and what is to be seen on it."""

    image: Tensor
    caption: str


@edataclass
class ImageClassificationSample(Sample):
    """A picture and its class: as a number, by name, or both."""

    image: Tensor
    label: int | None = None
    label_name: str | None = None


@edataclass
class VQASample(Sample):
    """A question (``context``) about a picture, with possible answers and how much each weighs, (len(answers),)."""

    image: Tensor
    context: str
    answers: list[str] | None = None
    answer_weights: Tensor | None = None


@edataclass
class MultiChoiceVQASample(Sample):
    """A question about a picture with choices, one of which is right."""

    image: Tensor
    context: str
    choices: list[str] | None = None
    correct_choice_idx: int | None = None


@edataclass
class OCRSample(Sample):
    """A picture of text, with the text as a whole and, optionally, by blocks, lines, words and characters."""

    image: Tensor
    text: str
    block_boxes: Tensor | None = None
    block_classes: Tensor | list[str] | None = None
    block_text: list[str] | None = None
    lines_boxes: Tensor | None = None
    lines_text: list[str] | None = None
    words_boxes: Tensor | None = None
    words_text: list[str] | None = None
    chars_boxes: Tensor | None = None
    chars_text: list[str] | None = None


@edataclass
class VQAOCRSample(Sample):
    """A question about a picture of text."""

    image: Tensor
    context: str
    text: str
    answers: list[str] | None = None
    answer_weights: Tensor | None = None
    words_boxes: Tensor | None = None
    words_text: list[str] | None = None


@edataclass
class VidQASample(Sample):
    """A question about a video."""

    video: Any
    context: str
    answers: list[str] | None = None
    answer_weights: Tensor | None = None


@edataclass
class InterleavedSample(Sample):
    """Pictures and text in the order in which they are read."""

    sequence: list[Tensor | str]


@edataclass
class SimilarityInterleavedSample(Sample):
    """Pictures and sentences, with how alike each pair is, (len(images), len(texts)), or which sentence each is at."""

    images: list[Tensor]
    texts: list[str]
    audio: Any = None
    video: Any = None
    similarity_matrix: Tensor | None = None
    matched_text_indices: list[int] | None = None
