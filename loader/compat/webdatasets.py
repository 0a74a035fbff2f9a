"""Dataset classes for ``dataset.yaml``, one for each sample type: ``CaptioningWebdataset`` and so on.

They are made from the list of sample types. Type checkers read the stub next to this file.
"""

from __future__ import annotations

from types import new_class
from typing import Any

from ..format.documents.sample_types import SAMPLE_TYPES, SampleTypeSpec
from ..samples import types
from .webdataset_factory import DefaultDecoderWebdatasetFactory


def _dataset_class(spec: SampleTypeSpec) -> type[Any]:
    sample_class = getattr(types, spec.name)
    members = {
        "__doc__": f"A dataset of :class:`~loader.samples.types.{spec.name}`.\n\n"
        f">>> {spec.dataset_class}('photos', split_part='train')\n{spec.dataset_class}(.../photos, train: 4 samples)\n",
        "__module__": __name__,
        "__sample_type__": sample_class,
    }
    bases = (DefaultDecoderWebdatasetFactory[sample_class],)
    return new_class(spec.dataset_class, bases, exec_body=lambda namespace: namespace.update(members))


globals().update({spec.dataset_class: _dataset_class(spec) for spec in SAMPLE_TYPES.values()})
