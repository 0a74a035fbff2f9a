"""Bytes of parts to values, and values to samples.

Like the face of the whole library, this imports a module only when one of its names is used: the checks of
``energon lint`` need the decoders of images and text, but not torch.

Two functions have the names of their modules, ``stateless`` and ``hook_context``: import them from there, since here
such a name is the module as soon as anything has imported it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .augment_task_encoder import AugmentTaskEncoder
    from .batch import Batch
    from .check import DecodeCheck, check_image_bytes
    from .collate import batch_list, batch_pad_stack, batch_stack, generic_batch
    from .concat import concat_pad, generic_concat, homogeneous_concat_mix
    from .cooking import Cooker, basic_sample_keys, cooker
    from .dataclass_mixins import ExtendableDataclassMixin, PinMemoryMixin
    from .decoder import SampleDecoder
    from .default_hook import is_default
    from .hook_context import HookContext, set_hook_context
    from .keyword_dataclass import edataclass
    from .sample_builder import SampleBuilder
    from .sample_format import format_sample_compact, format_sample_detailed
    from .source_info import SourceInfo, add_source_info, get_source_info
    from .stateless import failure_tolerance, is_stateless, restores_seeds
    from .task_encoder import DefaultTaskEncoder, TaskEncoder
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
    "AugmentTaskEncoder",
    "Batch",
    "CaptioningSample",
    "Cooker",
    "CrudeSample",
    "DecodeCheck",
    "DefaultTaskEncoder",
    "ExtendableDataclassMixin",
    "HookContext",
    "ImageClassificationSample",
    "ImageSample",
    "InterleavedSample",
    "MultiChoiceVQASample",
    "OCRSample",
    "PinMemoryMixin",
    "Sample",
    "SampleBuilder",
    "SampleDecoder",
    "SimilarityInterleavedSample",
    "SourceInfo",
    "TaskEncoder",
    "TextSample",
    "VQAOCRSample",
    "VQASample",
    "VidQASample",
    "add_source_info",
    "basic_sample_keys",
    "batch_list",
    "batch_pad_stack",
    "batch_stack",
    "check_image_bytes",
    "concat_pad",
    "cooker",
    "edataclass",
    "failure_tolerance",
    "format_sample_compact",
    "format_sample_detailed",
    "generic_batch",
    "generic_concat",
    "get_source_info",
    "homogeneous_concat_mix",
    "is_default",
    "is_stateless",
    "restores_seeds",
    "set_hook_context",
]

_MODULE_OF_NAME = {
    "AugmentTaskEncoder": "augment_task_encoder",
    "Batch": "batch",
    "Cooker": "cooking",
    "DecodeCheck": "check",
    "DefaultTaskEncoder": "task_encoder",
    "ExtendableDataclassMixin": "dataclass_mixins",
    "HookContext": "hook_context",
    "PinMemoryMixin": "dataclass_mixins",
    "SampleBuilder": "sample_builder",
    "SampleDecoder": "decoder",
    "SourceInfo": "source_info",
    "TaskEncoder": "task_encoder",
    "add_source_info": "source_info",
    "basic_sample_keys": "cooking",
    "batch_list": "collate",
    "batch_pad_stack": "collate",
    "batch_stack": "collate",
    "check_image_bytes": "check",
    "concat_pad": "concat",
    "cooker": "cooking",
    "edataclass": "keyword_dataclass",
    "failure_tolerance": "stateless",
    "format_sample_compact": "sample_format",
    "format_sample_detailed": "sample_format",
    "generic_batch": "collate",
    "generic_concat": "concat",
    "get_source_info": "source_info",
    "homogeneous_concat_mix": "concat",
    "is_default": "default_hook",
    "is_stateless": "stateless",
    "restores_seeds": "stateless",
    "set_hook_context": "hook_context",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULE_OF_NAME.get(name, 'types')}", __name__), name)
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
