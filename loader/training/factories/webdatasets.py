"""Dataset classes for ``dataset.yaml``, one for each sample type."""

from __future__ import annotations

from ...samples.types import (
    CaptioningSample,
    ConversationSample,
    CrudeSample,
    ImageClassificationSample,
    ImageSample,
    InterleavedSample,
    MultiChoiceVQASample,
    OCRSample,
    SimilarityInterleavedSample,
    TextSample,
    VidQASample,
    VQAOCRSample,
    VQASample,
)
from .webdataset_factory import DefaultDecoderWebdatasetFactory


class CaptioningWebdataset(DefaultDecoderWebdatasetFactory[CaptioningSample]):
    """A dataset of :class:`~loader.samples.types.CaptioningSample`."""

    __sample_type__ = CaptioningSample


class ConversationWebdataset(DefaultDecoderWebdatasetFactory[ConversationSample]):
    """A dataset of :class:`~loader.samples.types.ConversationSample`."""

    __sample_type__ = ConversationSample


class CrudeWebdataset(DefaultDecoderWebdatasetFactory[CrudeSample]):
    """A dataset of crude samples: dicts of their parts."""

    __sample_type__ = CrudeSample


class ImageClassificationWebdataset(DefaultDecoderWebdatasetFactory[ImageClassificationSample]):
    """A dataset of :class:`~loader.samples.types.ImageClassificationSample`."""

    __sample_type__ = ImageClassificationSample


class ImageWebdataset(DefaultDecoderWebdatasetFactory[ImageSample]):
    """A dataset of :class:`~loader.samples.types.ImageSample`."""

    __sample_type__ = ImageSample


class InterleavedWebdataset(DefaultDecoderWebdatasetFactory[InterleavedSample]):
    """A dataset of :class:`~loader.samples.types.InterleavedSample`."""

    __sample_type__ = InterleavedSample


class MultiChoiceVQAWebdataset(DefaultDecoderWebdatasetFactory[MultiChoiceVQASample]):
    """A dataset of :class:`~loader.samples.types.MultiChoiceVQASample`."""

    __sample_type__ = MultiChoiceVQASample


class OCRWebdataset(DefaultDecoderWebdatasetFactory[OCRSample]):
    """A dataset of :class:`~loader.samples.types.OCRSample`."""

    __sample_type__ = OCRSample


class SimilarityInterleavedWebdataset(DefaultDecoderWebdatasetFactory[SimilarityInterleavedSample]):
    """A dataset of :class:`~loader.samples.types.SimilarityInterleavedSample`."""

    __sample_type__ = SimilarityInterleavedSample


class TextWebdataset(DefaultDecoderWebdatasetFactory[TextSample]):
    """A dataset of :class:`~loader.samples.types.TextSample`."""

    __sample_type__ = TextSample


class VQAOCRWebdataset(DefaultDecoderWebdatasetFactory[VQAOCRSample]):
    """A dataset of :class:`~loader.samples.types.VQAOCRSample`."""

    __sample_type__ = VQAOCRSample


class VQAWebdataset(DefaultDecoderWebdatasetFactory[VQASample]):
    """A dataset of :class:`~loader.samples.types.VQASample`."""

    __sample_type__ = VQASample


class VidQAWebdataset(DefaultDecoderWebdatasetFactory[VidQASample]):
    """A dataset of :class:`~loader.samples.types.VidQASample`."""

    __sample_type__ = VidQASample
