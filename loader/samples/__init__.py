"""Bytes of parts to values, and values to samples.

Like the face of the whole library, this imports a module only when one of its names is used: the checks of
``energon lint`` need the decoders of images and text, but not torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .check import DecodeCheck, check_image_bytes
    from .decoder import SampleDecoder
    from .keyword_dataclass import edataclass
    from .sample_builder import SampleBuilder
    from .source_info import SourceInfo
    from .types import (
        CaptioningSample,
        CrudeSample,
        ImageClassificationSample,
        ImageSample,
        InterleavedSample,
        MultiChoiceVQASample,
        OCRSample,
        Sample,
        SimilarityInterleavedSample,
        TextSample,
        VidQASample,
        VQAOCRSample,
        VQASample,
    )

__all__ = [
    "CaptioningSample",
    "CrudeSample",
    "DecodeCheck",
    "ImageClassificationSample",
    "ImageSample",
    "InterleavedSample",
    "MultiChoiceVQASample",
    "OCRSample",
    "Sample",
    "SampleBuilder",
    "SampleDecoder",
    "SimilarityInterleavedSample",
    "SourceInfo",
    "TextSample",
    "VQAOCRSample",
    "VQASample",
    "VidQASample",
    "check_image_bytes",
    "edataclass",
]

_MODULE_OF_NAME = {
    "DecodeCheck": "check",
    "SampleBuilder": "sample_builder",
    "SampleDecoder": "decoder",
    "SourceInfo": "source_info",
    "check_image_bytes": "check",
    "edataclass": "keyword_dataclass",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULE_OF_NAME.get(name, 'types')}", __name__), name)
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
