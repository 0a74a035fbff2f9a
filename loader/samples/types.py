"""Sample types.

``loader/format/documents/sample_types.py`` lists their fields for code that must not import torch.

Boxes are tensors of shape (N, 4) or (N, 5): x, y, width, height and, where known, confidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from copyreg import __newobj__  # type: ignore[attr-defined] # not in its stub
from dataclasses import field, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, Self

from ..errors import ConfigError, SampleError
from ..format.documents.conversation import Turn, conversation_turns
from ..lazy_torch import torch
from .edataclass import SummaryMixin, edataclass
from .sample_dataclass import ExtendableDataclassMixin, PinMemoryMixin, TagsMixin, with_field_names
from .source_info import SourceInfo


def join_parts(sample: Any, *others: Any) -> Any:
    """Return a sample with the parts of other samples, as a joiner of a metadataset.

    ``energon add-parts`` names it in the metadataset that it writes.

    Args:
        sample: A crude sample, which gets all parts; or a typed one, whose fields get the values of parts with their
            names: the part ``caption.txt`` is the field ``caption``.
        others: Crude samples of the same key; None where a dataset has none.

    Raises:
        ConfigError: A typed sample has no field of a part's name, or another sample is not crude.

    >>> join_parts(CrudeSample({"__key__": "a", "jpg": 1}), CrudeSample({"__key__": "b", "txt": "new"}), None)["txt"]
    'new'
    """
    # Dicts take any part; fields of a class must exist, since a misspelt name would be lost silently.
    added = {name: value for other in others if other is not None for name, value in _parts(other)}
    if isinstance(sample, dict):
        return CrudeSample({**sample, **added})
    joined = copy(sample)
    known = {known_field.name for known_field in fields(sample)} if is_dataclass(sample) else set()
    for name, value in added.items():
        field = name.partition(".")[0]
        if field not in known:
            raise ConfigError(
                f"expected parts with the names of fields of {type(sample).__name__}, found {name!r}",
                hint=f"name it after a field ({', '.join(sorted(n for n in known if n[:2] != '__'))}), or write a"
                " joiner of your own",
            )
        setattr(joined, field, value)
    return joined


def _parts(other: Any) -> list[tuple[str, Any]]:
    if not isinstance(other, dict):
        raise ConfigError(
            f"expected crude samples of added parts, found {type(other).__name__}",
            hint="remove the dataset.yaml of the added parts, or write a joiner of your own",
        )
    return [(name, value) for name, value in other.items() if not (name.startswith("__") and name.endswith("__"))]


class CrudeSample(SummaryMixin, dict[str, Any]):
    """Crude sample: a dict of the parts (``sample["jpg"]``) and ``__key__``, before a cooker builds a typed sample.

    Attributes:
        source: Number of its source in the chain; set only if a cooker needs it.

    >>> sample = CrudeSample({"__key__": "photos.tar/0000", "txt": "a cat"})
    >>> sample["txt"]
    'a cat'
    """

    source: int | None = None

    def __missing__(self, name: str) -> Any:
        if name == "__tags__":
            return self["__subflavors__"]
        raise KeyError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker pickles one for each sample; Python's default takes longer.
        return __newobj__, (type(self),), self.__getstate__(), None, iter(self.items())


class CrudeBatch(SummaryMixin, dict[str, Any]):
    """Batch of crude samples: a dict of the batched parts and of the lists ``__key__``, ``__sources__`` and so on."""

    def __reduce__(self) -> tuple[Any, ...]:
        return crude_batch, (dict(self),)


def crude_batch(values: Mapping[str, Any]) -> CrudeBatch:
    """Return a batch of crude samples, in which functions of torch find the tensors, as in any dict."""
    _register_in_torch()
    return CrudeBatch(values)


@cache
def _register_in_torch() -> None:
    from torch.utils._pytree import register_pytree_node

    register_pytree_node(
        CrudeBatch,
        lambda batch: ([*batch.values()], [*batch]),
        lambda values, names: CrudeBatch(zip(names, values, strict=True)),
    )


@edataclass
class Sample(SummaryMixin, PinMemoryMixin, ExtendableDataclassMixin, TagsMixin):
    """Base of all sample types.

    Args:
        __key__: Name of the sample, ``<shard>/<key>``, unique in its dataset; the bare key with ``key_format="key"``.
        __restore_key__: Identifies the sample in the run, to load it again: nested tuples of str and int.
        __subflavors__: Labels of its dataset; ``__tags__`` is another name.
        __sources__: The files that its parts were read from.

    >>> Sample(__key__="shard_0.tar/0000")
    Sample(__key__='shard_0.tar/0000')
    """

    # Factories, because a default would stay in the class as an attribute. A plain dataclass that redeclares the field,
    # as training code does, would inherit it, and no field without a default could follow.
    __key__: str
    __restore_key__: tuple[Any, ...] = field(default_factory=tuple, repr=False)
    __subflavors__: dict[str, Any] | None = field(default_factory=NoneType, repr=False)
    __sources__: tuple[SourceInfo, ...] | None = field(default_factory=NoneType, repr=False)

    @classmethod
    def derive_from(cls, base_sample: Sample, **fields_given: Any) -> Self:
        """Create a sample of this type with the key and sources of ``base_sample`` and the given fields.

        >>> import torch
        >>> image = ImageSample(__key__="s.tar/0", image=torch.zeros(3, 2, 2))
        >>> TextSample.derive_from(image, text="black")
        TextSample(__key__='s.tar/0', text='black')

        Raises:
            SampleError: ``base_sample`` lacks them, as a crude sample does, which is a dict.
        """
        try:
            shared = {name: getattr(base_sample, name) for name in _SHARED}
        except AttributeError as error:
            base_class = type(base_sample).__name__
            raise SampleError(
                f"cannot derive a {cls.__name__} from a {base_class}, which has no field {error.name!r}",
                hint=f"from a crude sample, build it with {cls.__name__}(**basic_sample_keys(sample), …)",
            ) from None
        return cls(**shared | with_field_names(fields_given))


_SHARED = tuple(known.name for known in fields(Sample))


@edataclass
class TextSample(Sample):
    """Text.

    >>> TextSample(__key__="books.tar/0", text="It was a dark night.")
    TextSample(__key__='books.tar/0', text='It was a dark night.')
    """

    text: str


@edataclass
class ImageSample(Sample):
    """An image: by default a float tensor (3, H, W).

    >>> ImageSample(__key__="photos.tar/0000", image=torch.zeros(3, 6, 8))
    ImageSample(__key__='photos.tar/0000', image=Tensor(float32, [3, 6, 8]))
    """

    image: torch.Tensor


@edataclass
class CaptioningSample(Sample):
    """An image and its caption.

    >>> CaptioningSample(__key__="photos.tar/0000", image=torch.zeros(3, 6, 8), caption="a cat")
    CaptioningSample(__key__='photos.tar/0000', image=Tensor(float32, [3, 6, 8]), caption='a cat')
    """

    image: torch.Tensor
    caption: str


@edataclass
class ImageClassificationSample(Sample):
    """An image and its class: a number, a name, or both.

    >>> sample = ImageClassificationSample(__key__="photos.tar/0", image=torch.zeros(3, 6, 8), label_name="cat")
    >>> sample.label_name
    'cat'
    """

    image: torch.Tensor
    label: int | None = None
    label_name: str | None = None


@edataclass
class VQASample(Sample):
    """A question (``context``) about an image, with possible answers and their weights, shape (len(answers),).

    >>> sample = VQASample(__key__="photos.tar/0", image=torch.zeros(3, 6, 8), context="Who is it?", answers=["a cat"])
    >>> sample.answers
    ['a cat']
    """

    image: torch.Tensor
    context: str
    answers: list[str] | None = None
    answer_weights: torch.Tensor | None = None


@edataclass
class MultiChoiceVQASample(Sample):
    """A question about an image with choices and the correct one.

    >>> sample = MultiChoiceVQASample(
    ...     __key__="a.tar/0", image=torch.zeros(3, 6, 8), context="Who?", choices=["dog", "cat"], correct_choice_idx=1
    ... )
    >>> sample.choices[sample.correct_choice_idx]
    'cat'
    """

    image: torch.Tensor
    context: str
    choices: list[str] | None = None
    correct_choice_idx: int | None = None


@edataclass
class OCRSample(Sample):
    """An image of text, with the whole text and, optionally, its blocks, lines, words and characters.

    >>> sample = OCRSample(__key__="scans.tar/0", image=torch.zeros(3, 6, 8), text="Way out", words_text=["Way", "out"])
    >>> sample.words_text
    ['Way', 'out']
    """

    image: torch.Tensor
    text: str
    block_boxes: torch.Tensor | None = None
    block_classes: torch.Tensor | list[str] | None = None
    block_text: list[str] | None = None
    lines_boxes: torch.Tensor | None = None
    lines_text: list[str] | None = None
    words_boxes: torch.Tensor | None = None
    words_text: list[str] | None = None
    chars_boxes: torch.Tensor | None = None
    chars_text: list[str] | None = None


@edataclass
class VQAOCRSample(Sample):
    """A question about an image of text.

    >>> image = torch.zeros(3, 6, 8)
    >>> sample = VQAOCRSample(__key__="scans.tar/0", image=image, context="Where to?", text="Way out", answers=["out"])
    >>> sample.answers
    ['out']
    """

    image: torch.Tensor
    context: str
    text: str
    answers: list[str] | None = None
    answer_weights: torch.Tensor | None = None
    words_boxes: torch.Tensor | None = None
    words_text: list[str] | None = None


@edataclass
class VidQASample(Sample):
    """A question about a video.

    >>> clip = torch.zeros(2, 3, 6, 8)
    >>> sample = VidQASample(__key__="clips.tar/0", video=clip, context="Who runs?", answers=["a cat"])
    >>> sample.answers
    ['a cat']
    """

    video: Any
    context: str
    answers: list[str] | None = None
    answer_weights: torch.Tensor | None = None


@edataclass
class InterleavedSample(Sample):
    """Images and text in reading order.

    >>> InterleavedSample(__key__="pages.tar/0", sequence=["A cat:", torch.zeros(3, 6, 8), "It sleeps."])
    InterleavedSample(__key__='pages.tar/0', sequence=['A cat:', Tensor(float32, [3, 6, 8]), 'It sleeps.'])
    """

    sequence: list[torch.Tensor | str]


@edataclass
class ConversationSample(Sample):
    """A conversation about images, videos and sounds; megatron-energon does not have this type.

    Args:
        turns: The turns: role, and texts and numbers of images in reading order.
        images: The images; empty for a conversation without any.
        videos: The videos, in the order of ``<video>`` in the texts.
        audios: The sounds, in the order of ``<audio>`` in the texts.

    >>> turns = [Turn("user", [0, "What is this?"]), Turn("assistant", ["A cat."])]
    >>> sample = ConversationSample(__key__="chats.tar/0", turns=turns, images=[torch.zeros(3, 6, 8)])
    >>> [turn.text for turn in sample.turns]
    ['<image>What is this?', 'A cat.']
    """

    turns: list[Turn]
    images: list[torch.Tensor] = field(default_factory=list)
    videos: list[Any] = field(default_factory=list)
    audios: list[Any] = field(default_factory=list)

    @classmethod
    def from_fields(
        cls, *, turns: Any, images: Any = None, videos: Any = None, audios: Any = None, **others: Any
    ) -> Self:
        """Create a sample from the values of a field map or a sample loader.

        Args:
            turns: As in :func:`~loader.format.documents.conversation.conversation_turns`.
            images: A list of images, one image, or None.
            videos: A list of videos, one video, or None.
            audios: A list of sounds, one sound, or None.
            others: The other fields.

        Raises:
            SampleError: ``turns`` is not a conversation, or has more or fewer places of images than there are images.
        """
        # A decoded sound may be a tuple of samples and rate.
        media = [
            [] if values is None else list(values) if isinstance(values, kinds) else [values]
            for values, kinds in ((images, (list, tuple)), (videos, list), (audios, list))
        ]
        try:
            parsed = conversation_turns(turns, images=len(media[0]), videos=len(media[1]), audios=len(media[2]))
        except ValueError as error:
            raise SampleError(f"field 'turns': {error}") from error
        return cls(turns=parsed, images=media[0], videos=media[1], audios=media[2], **others)


@edataclass
class SimilarityInterleavedSample(Sample):
    """Images and sentences, with the similarity of each pair, (len(images), len(texts)), or each image's sentence.

    >>> sample = SimilarityInterleavedSample(
    ...     __key__="pages.tar/0", images=[torch.zeros(3, 6, 8)], texts=["Hello.", "A cat."], matched_text_indices=[1]
    ... )
    >>> sample.texts[sample.matched_text_indices[0]]
    'A cat.'
    """

    images: list[torch.Tensor]
    texts: list[str]
    audio: Any = None
    video: Any = None
    similarity_matrix: torch.Tensor | None = None
    matched_text_indices: list[int] | None = None
