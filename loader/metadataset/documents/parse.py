"""A metadataset file, of either version, to what it says."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import ConfigError, Fault
from ..format.dataset_config import is_own_module
from ..format.nearest_name import did_you_mean
from ..format.shown_value import shown
from ..format.yaml_document import parse_yaml
from .mapping_reader import MappingReader
from .metadataset_spec import MetadatasetSpec, SplitSpec
from .parse_v1 import parse_v1_split
from .parse_v2 import parse_v2_split

__all__ = ["parse_metadataset"]

_V1, _V2 = "Metadataset", "MetadatasetV2"


def parse_metadataset(text: str, *, file: str) -> tuple[MetadatasetSpec, list[Fault]]:
    """Parse a metadataset, and note everything that is wrong with it.

    Args:
        text: The document, YAML or JSON.
        file: Its path.

    Returns:
        What can be understood of it, and the faults, so that the files it names can be checked all the same.

    >>> text = '''
    ... __module__: megatron.energon
    ... __class__: MetadatasetV2
    ... splits: {train: {blend: [{path: ./coco, weight: 5}, {path: ./coyo, weight: two}]}}
    ... '''
    >>> spec, faults = parse_metadataset(text, file="mix.yaml")
    >>> [entry.source.path for entry in spec.splits["train"].entries]
    ['./coco', './coyo']
    >>> print(*faults)
    splits.train.blend[1].weight: expected a number > 0, found 'two'
    """
    faults: list[Fault] = []
    try:
        document = parse_yaml(text, file=file)
    except ConfigError as error:
        return MetadatasetSpec(file=file), list(error.faults)
    if not isinstance(document, Mapping):
        found = "an empty document" if document is None else shown(document)
        faults.append(Fault(place="", found=f"expected a mapping with '__class__' and 'splits', found {found}"))
        return MetadatasetSpec(file=file), faults
    reader = MappingReader(document, "", faults)
    reader.expect_keys(("__module__", "__class__", "splits"))
    if document.get("splits") is None:
        reader.fault("splits", "this is missing; expected a mapping of splits, such as train and val, to datasets")
    splits = reader.child("splits")
    if splits is None:
        return MetadatasetSpec(file=file), faults
    is_v1 = _is_v1(reader, splits)
    found_splits: dict[str, SplitSpec] = {}
    for name, value in splits.mapping.items():
        if not isinstance(name, str):
            faults.append(Fault(place=splits.at(name), found="expected the name of a split; put it in quotes"))
            continue
        split = splits.mapping_of(value, splits.at(name))
        spec = None if split is None else parse_v1_split(split) if is_v1 else parse_v2_split(split)
        if spec is not None:
            found_splits[name] = spec
    names = tuple(name for name in splits.mapping if isinstance(name, str))
    return MetadatasetSpec(file=file, version=1 if is_v1 else 2, names=names, splits=found_splits), faults


def _is_v1(reader: MappingReader, splits: MappingReader) -> bool:
    """Tell which version a document has; where it does not say so, by what is in it."""
    looks_like_v1 = all(isinstance(split, Mapping) and "datasets" in split for split in splits.mapping.values())
    name, module = reader.text("__class__"), reader.text("__module__")
    if module is not None and not is_own_module(module):
        reader.fault("__module__", f"expected megatron.energon, found {shown(module)}")
    if name is None:
        # The first version needed no class.
        if not looks_like_v1 and reader.mapping.get("__class__") is None:
            reader.fault("__class__", f"this is missing; expected {_V2}")
        return looks_like_v1
    if name not in (_V1, _V2):
        hint = did_you_mean(name, (_V2, _V1))
        if name.endswith(("Webdataset", "Factory")):
            hint = "; this describes one dataset: give the path of its folder"
        reader.fault("__class__", f"there is no metadataset class {shown(name)}{hint}")
        return looks_like_v1
    return name == _V1
