"""The energon dataset library: what a training script imports.

Importing this package imports next to nothing: a name is looked up in its module when it is first used (PEP 562), so a
program that only needs the exceptions pays neither for torch nor for numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

__all__ = [
    "CaptioningSample",
    "ConfigError",
    "CrudeSample",
    "EnergonError",
    "FatalSampleError",
    "FormatError",
    "ImageClassificationSample",
    "ImageSample",
    "InterleavedSample",
    "MultiChoiceVQASample",
    "OCRSample",
    "Sample",
    "SampleDecoder",
    "SampleError",
    "SimilarityInterleavedSample",
    "SkipSample",
    "SourceInfo",
    "StateError",
    "StorageError",
    "TextSample",
    "TrustError",
    "VQAOCRSample",
    "VQASample",
    "VidQASample",
    "WorkerError",
    "__version__",
    "edataclass",
]

if TYPE_CHECKING:
    from .errors import (
        ConfigError,
        EnergonError,
        FatalSampleError,
        FormatError,
        SampleError,
        SkipSample,
        StateError,
        StorageError,
        TrustError,
        WorkerError,
    )
    from .samples import (
        CaptioningSample,
        CrudeSample,
        ImageClassificationSample,
        ImageSample,
        InterleavedSample,
        MultiChoiceVQASample,
        OCRSample,
        Sample,
        SampleDecoder,
        SimilarityInterleavedSample,
        SourceInfo,
        TextSample,
        VidQASample,
        VQAOCRSample,
        VQASample,
        edataclass,
    )

_MODULES = {
    "errors": (
        "ConfigError",
        "EnergonError",
        "FatalSampleError",
        "FormatError",
        "SampleError",
        "SkipSample",
        "StateError",
        "StorageError",
        "TrustError",
        "WorkerError",
    ),
    "samples": (
        "CaptioningSample",
        "CrudeSample",
        "ImageClassificationSample",
        "ImageSample",
        "InterleavedSample",
        "MultiChoiceVQASample",
        "OCRSample",
        "Sample",
        "SampleDecoder",
        "SimilarityInterleavedSample",
        "SourceInfo",
        "TextSample",
        "VQAOCRSample",
        "VQASample",
        "VidQASample",
        "edataclass",
    ),
}
_MODULE_OF_NAME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF_NAME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
