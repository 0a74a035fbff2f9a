"""Parse and write ``dataset.yaml``, which defines the samples of a dataset in one of three forms.

=====================================================  =======================================================
``sample_type`` and ``field_map``                       expressions name the part of each field
``sample_type`` and ``sample_loader``                   a Python file in ``.nv-meta`` builds the fields
``__module__`` and ``__class__``                        ``CrudeWebdataset``; legacy ``CaptioningWebdataset`` etc.
=====================================================  =======================================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import yaml
from msgspec import UNSET, Meta, Struct, UnsetType, field

from ...errors import ConfigError, Fault
from ...own_names import names_library
from .field_map import FieldMap, parse_field_map
from .messages import did_you_mean, short_key, short_keys, short_repr
from .providers import KeyFormat
from .sample_types import CRUDE, SAMPLE_TYPES, SampleTypeSpec
from .schema import converted
from .yaml_document import PlainDumper, parse_yaml

OWN_MODULE = "megatron.energon"
"""Module of our own classes in the files that we write, so that megatron-energon reads them too."""
_MODULE_LINE = f"__module__: {OWN_MODULE}"
_MODULE_REMARK = "a shared name: needs no megatron-energon"

# Keys that configure loading, not the samples, mostly those of legacy classes: stored in ``extra``.
_IGNORED_KEYS = (
    "auto_decode",
    "av_decode",
    "guess_content",
    "ignore_decoder_errors",
    "image_decode",
    "subflavor",
    "video_decode_audio",
)

# Classes without a sample type of their own.
_GENERIC_CLASSES = ("StandardWebdatasetFactory", "DefaultGenericWebdatasetFactory", "DefaultDecoderWebdatasetFactory")

_CLASS_TO_SPEC = {spec.dataset_class: spec for spec in SAMPLE_TYPES.values()}

_ModuleName = Annotated[str, Meta(min_length=1, description="the name of a module")]
_ClassName = Annotated[str, Meta(min_length=1, description="the name of a class")]
_Function = Annotated[
    str, Meta(pattern=r"^[^:\s][^:]*\.py:[^\W\d]\w*\Z", description="'file.py:function' (a file in .nv-meta)")
]
_PartName = Annotated[str, Meta(description="the name of a part")]


class _SampleType(Struct, frozen=True, forbid_unknown_fields=True):
    class_name: _ClassName = field(name="__class__")
    module: _ModuleName = field(name="__module__", default=OWN_MODULE)


class _Document(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The keys of a ``dataset.yaml`` that are not in ``extra``."""

    module: _ModuleName = field(name="__module__", default=OWN_MODULE)
    dataset_class: _ClassName = field(name="__class__", default="")
    sample_type: Annotated[_SampleType, Meta(description="a mapping with '__module__' and '__class__'")] | UnsetType = (
        UNSET
    )
    field_map: Annotated[dict[Any, Any], Meta(description="a mapping of fields to parts")] | None = None
    sample_loader: _Function | None = None
    part_filter: _Function | list[_PartName] | None = None
    subflavors: dict[Any, Any] | None = None
    tags: dict[Any, Any] | None = None
    key_format: Annotated[KeyFormat, Meta(description='"shard/key" or "key"')] | None = None
    split_config: Annotated[str, Meta(description="the name of a file in .nv-meta")] | None = None
    split_part: Annotated[str, Meta(description="the name of a split part")] | None = None


_DOCUMENT = Annotated[_Document, Meta(description="a mapping with 'sample_type' or '__class__'")]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetConfig:
    """The content of a ``dataset.yaml``.

    Args:
        sample_type: Class of the samples, such as ``"CaptioningSample"``, and ``"CrudeSample"`` for crude ones; None if
            the document names only a dataset class of another module.
        module: Module of that class as written: ``"megatron.energon"``, or another one.
        crude: True if samples stay dicts of parts.
        field_map: Part and path of each field's value.
        sample_loader: ``"sample_loader.py:function"``, a file in ``.nv-meta``.
        part_filter: The same, or the names of the parts to load.
        subflavors: Labels of every sample.
        key_format: Form of ``__key__``; None if the document does not name it.
        dataset_class: Dataset class, if the document names one (third form).
        dataset_module: Module of the dataset class.
        split_config: Name of the split file in ``.nv-meta`` to use instead of any other.
        split_part: Split part to load instead of any other.
        extra: Other arguments of a legacy class, or of a class of another module.
    """

    sample_type: str | None
    module: str = OWN_MODULE
    crude: bool = False
    field_map: FieldMap | None = None
    sample_loader: str | None = None
    part_filter: str | tuple[str, ...] | None = None
    subflavors: dict[str, object] = dataclasses.field(default_factory=dict)
    key_format: KeyFormat | None = None
    dataset_class: str | None = None
    dataset_module: str = OWN_MODULE
    split_config: str | None = None
    split_part: str | None = None
    extra: dict[str, object] = dataclasses.field(default_factory=dict)

    @property
    def spec(self) -> SampleTypeSpec | None:
        """Spec of the sample type; None for a class of another module."""
        return SAMPLE_TYPES.get(self.sample_type or "") if is_own_module(self.module) else None


def is_own_module(module: str) -> bool:
    """Return True if a module that a document names belongs to this library, under any of its names.

    >>> is_own_module("megatron.energon.flavors"), is_own_module("my_code")
    (True, False)
    """
    return module == OWN_MODULE or module.startswith(f"{OWN_MODULE}.") or names_library(module)


def parse_dataset_config(text: str, *, file: str) -> DatasetConfig:
    """Parse a ``dataset.yaml``, and collect all its faults.

    Args:
        text: YAML or JSON document.
        file: Name of the file, for messages.

    Raises:
        ConfigError: The text does not parse (with line and column), or has faults (all of them, with their places).

    >>> parse_dataset_config("{__module__: megatron.energon, __class__: CrudeWebdataset}", file="dataset.yaml").crude
    True
    """
    document = parse_yaml(text, file=file)
    # Set apart the keys that any class may have, and those that another module's class may have.
    extra: dict[str, object] = {}
    if isinstance(document, dict):
        is_own = is_own_module(str(document.get("__module__", OWN_MODULE)))
        known = {*_IGNORED_KEYS} if is_own else document.keys() - {*_Document.__struct_encode_fields__}
        extra = {key: value for key, value in document.items() if key in known and isinstance(key, str)}
        document = {key: value for key, value in document.items() if key not in extra}
    # Check the form of each value; those that do not fit are missing below.
    faults: list[Fault] = []
    given: _Document | None = converted(document, _DOCUMENT, faults)
    if given is None:
        raise ConfigError(file=file, faults=faults)
    field_map = None
    try:
        field_map = None if given.field_map is None else parse_field_map(given.field_map, file=file)
    except ConfigError as error:
        faults += error.faults
    # Find the sample type, which the dataset class may name.
    module, sample_type = given.module, None
    if given.sample_type is not UNSET:
        module, sample_type = given.sample_type.module, given.sample_type.class_name
    elif is_own_module(module) and given.dataset_class in _CLASS_TO_SPEC:
        sample_type = _CLASS_TO_SPEC[given.dataset_class].name
    crude = sample_type == CRUDE.name and is_own_module(module)
    subflavors = given.tags if given.subflavors is None else given.subflavors
    config = DatasetConfig(
        sample_type=sample_type,
        module=module,
        crude=crude,
        field_map=field_map,
        sample_loader=given.sample_loader,
        part_filter=tuple(given.part_filter) if isinstance(given.part_filter, list) else given.part_filter,
        subflavors={str(key): value for key, value in (subflavors or {}).items()},
        key_format=given.key_format,
        # format_dataset_config adds the only class of crude datasets.
        dataset_class=None if crude else given.dataset_class or None,
        dataset_module=given.module,
        split_config=given.split_config,
        split_part=given.split_part,
        extra=extra,
    )
    # Check their combination.
    for path, message in (*_faults_of_types(config, given, document), *_faults_of_fields(config, given, document)):
        faults.append(Fault(place=path, message=message))
    if faults:
        raise ConfigError(file=file, faults=faults)
    return config


def format_dataset_config(config: DatasetConfig) -> str:
    """Write a config as YAML that this library and megatron-energon parse back to the same config.

    >>> text = format_dataset_config(DatasetConfig(sample_type="CrudeSample", crude=True))
    >>> print(text, end="")
    __module__: megatron.energon  # a shared name: needs no megatron-energon
    __class__: CrudeWebdataset
    """
    document: dict[str, object] = {}
    # Name the dataset class, or the sample type if no dataset class implies it.
    dataset_class = CRUDE.dataset_class if config.crude else config.dataset_class
    if dataset_class is not None:
        document |= {"__module__": config.dataset_module, "__class__": dataset_class}
    is_implied = dataset_class in _CLASS_TO_SPEC and is_own_module(config.dataset_module)
    if config.sample_type is not None and not config.crude and not is_implied:
        document["sample_type"] = {"__module__": config.module, "__class__": config.sample_type}
    # Write the other keys that the config has.
    document |= given_values(config)
    chosen = {key: getattr(config, key) for key in ("key_format", "split_config", "split_part")}
    document |= {key: value for key, value in chosen.items() if value is not None}
    document |= config.extra
    # A wide line keeps each expression on its line.
    text: str = yaml.dump(
        document, Dumper=PlainDumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=1000
    )
    return text.replace(f"{_MODULE_LINE}\n", f"{_MODULE_LINE}  # {_MODULE_REMARK}\n", 1)


def given_values(config: DatasetConfig) -> dict[str, Any]:
    """Return how samples are built, as ``dataset.yaml`` writes it; what the config does not set is missing."""
    given: dict[str, Any] = {}
    if config.field_map is not None:
        given["field_map"] = config.field_map.expressions()
    if config.sample_loader is not None:
        given["sample_loader"] = config.sample_loader
    if config.part_filter is not None:
        is_function = isinstance(config.part_filter, str)
        given["part_filter"] = config.part_filter if is_function else list(config.part_filter)
    if config.subflavors:
        given["subflavors"] = config.subflavors
    return given


def _faults_of_types(config: DatasetConfig, given: _Document, document: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """Yield the places and messages of a dataset class and a sample type that name no samples, or different ones."""
    dataset_class = given.dataset_class
    implied = _CLASS_TO_SPEC.get(dataset_class) if is_own_module(given.module) else None
    if "__module__" in document and "__class__" not in document:
        yield "__class__", "expected the name of a class, found nothing"
    elif "sample_type" not in document and "__class__" not in document:
        yield "", f"expected 'sample_type' or '__class__', found {short_keys(document)}"
    elif "sample_type" not in document and dataset_class and implied is None and is_own_module(given.module):
        yield _fault_of_class(dataset_class)
    elif implied is not None and implied != config.spec:
        yield "sample_type", f"{dataset_class} means {implied.name}; remove one of the two"
    if config.sample_type is not None and config.spec is None and is_own_module(config.module):
        hint = did_you_mean(short_key(config.sample_type), SAMPLE_TYPES)
        yield "sample_type.__class__", f"there is no sample type {short_repr(config.sample_type)}{hint}"


def _fault_of_class(dataset_class: str) -> tuple[str, str]:
    """Return the place and message of a dataset class of ours that names no sample type."""
    if dataset_class.startswith("Metadataset"):
        return "__class__", "this describes a metadataset, not one dataset; load it by its own path"
    if dataset_class in _GENERIC_CLASSES:
        return "", f"{dataset_class} needs a 'sample_type'"
    hint = did_you_mean(short_key(dataset_class), (*_CLASS_TO_SPEC, *_GENERIC_CLASSES))
    return "__class__", f"there is no dataset class {short_repr(dataset_class)}{hint}"


def _faults_of_fields(
    config: DatasetConfig, given: _Document, document: Mapping[Any, Any]
) -> Iterator[tuple[str, str]]:
    """Yield the places and messages of labels and fields that are given twice, or that the sample type lacks."""
    if given.subflavors is not None and given.tags is not None:
        yield "tags", "this is another name of 'subflavors', which is here, too; remove one of them"
    if given.field_map is not None and given.sample_loader is not None:
        yield "sample_loader", "expected either 'field_map' or 'sample_loader', found both"
    spec = config.spec
    if spec is None:
        return
    # Crude samples have no fields; others have those of their type.
    if spec.crude:
        for key in ("field_map", "sample_loader"):
            if getattr(given, key) is not None:
                yield key, "crude samples have no fields to fill; name another sample type, or remove this"
    elif config.field_map is not None:
        names = [known.name for known in spec.fields]
        for name in config.field_map.fields:
            if name not in names:
                hint = did_you_mean(short_key(name), names)
                yield f"field_map.{short_key(name)}", f"{spec.name} has no such field{hint}"
        for known in spec.fields:
            if known.required and known.name not in config.field_map.fields:
                yield "field_map", f"field {known.name!r} of {spec.name} is missing"
    elif "field_map" not in document and "sample_loader" not in document:
        yield "", f"expected 'field_map' or 'sample_loader' for a {spec.name}, found neither"
