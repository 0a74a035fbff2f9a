"""Parse and write ``dataset.yaml``, which defines the samples of a dataset in one of three forms.

=====================================================  =======================================================
``sample_type`` and ``field_map``                       expressions name the part of each field
``sample_type`` and ``sample_loader``                   a Python file in ``.nv-meta`` builds the fields
``__module__`` and ``__class__``                        ``CrudeWebdataset``; legacy ``CaptioningWebdataset`` etc.
=====================================================  =======================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from ...errors import ConfigError, Fault
from .field_map import FieldMap, parse_field_map
from .messages import did_you_mean, short_key, short_keys, short_repr
from .providers import KeyFormat, checked_key_format
from .sample_types import CRUDE, SAMPLE_TYPES, SampleTypeSpec
from .yaml_document import PlainDumper, parse_yaml

OWN_MODULE = "megatron.energon"
"""Module of our own classes in the files that we write, so that megatron-energon reads them too."""
_MODULE_LINE = f"__module__: {OWN_MODULE}"
_MODULE_REMARK = "a shared name: needs no megatron-energon"

_KEYS = (
    "__module__",
    "__class__",
    "sample_type",
    "field_map",
    "sample_loader",
    "part_filter",
    "subflavors",
    "tags",
    "key_format",
)
SPLIT_KEYS = ("split_config", "split_part")
"""Keys for the split file in ``.nv-meta`` and the split part to load instead of any others."""
# Keys that configure loading, not the samples, mostly those of legacy classes: stored in ``extra``.
_IGNORED_KEYS = (
    "auto_decode",
    "av_decode",
    "guess_content",
    "ignore_decoder_errors",
    "image_decode",
    *SPLIT_KEYS,
    "subflavor",
    "video_decode_audio",
)

# Classes without a sample type of their own.
_GENERIC_CLASSES = ("StandardWebdatasetFactory", "DefaultGenericWebdatasetFactory", "DefaultDecoderWebdatasetFactory")

_CLASS_TO_SPEC = {spec.dataset_class: spec for spec in SAMPLE_TYPES.values()}
_FUNCTION = re.compile(r"[^:\s][^:]*\.py:[^\W\d]\w*")


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
        extra: Other arguments of a legacy class, or of a class of another module.
    """

    sample_type: str | None
    module: str = OWN_MODULE
    crude: bool = False
    field_map: FieldMap | None = None
    sample_loader: str | None = None
    part_filter: str | tuple[str, ...] | None = None
    subflavors: dict[str, object] = field(default_factory=dict)
    key_format: KeyFormat | None = None
    dataset_class: str | None = None
    dataset_module: str = OWN_MODULE
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def spec(self) -> SampleTypeSpec | None:
        """Spec of the sample type; None for a class of another module."""
        return SAMPLE_TYPES.get(self.sample_type or "") if is_own_module(self.module) else None


def is_own_module(module: str) -> bool:
    """Return True if a module belongs to this library, under either of its names.

    >>> is_own_module("megatron.energon.flavors"), is_own_module("my_code")
    (True, False)
    """
    return any(module == package or module.startswith(f"{package}.") for package in (OWN_MODULE, "loader"))


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
    if not isinstance(document, Mapping):
        shown = "an empty document" if document is None else f"a {type(document).__name__}"
        raise ConfigError(f"expected a mapping with 'sample_type' or '__class__', found {shown}", file=file)
    return _Parser(document, file).parse()


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
    if config.key_format is not None:
        document["key_format"] = config.key_format
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


class _Parser:
    """Parses a document in one pass, and reports all faults at the end."""

    def __init__(self, document: Mapping[Any, Any], file: str) -> None:
        self.document = document
        self.file = file
        self.faults: list[Fault] = []

    def parse(self) -> DatasetConfig:
        # Find the dataset class and the sample type: one of them names the other.
        dataset_module, dataset_class = OWN_MODULE, None
        if "__class__" in self.document or "__module__" in self.document:
            dataset_module, dataset_class = self._module_and_class(self.document, "")
        module, sample_type = dataset_module, None
        if "sample_type" in self.document:
            module, sample_type = self._sample_type()
            implied = _CLASS_TO_SPEC.get(dataset_class or "") if is_own_module(dataset_module) else None
            if implied is not None and not (is_own_module(module) and sample_type == implied.name):
                self._fault("sample_type", f"{dataset_class} means {implied.name}; remove one of the two")
        elif dataset_class and is_own_module(dataset_module):
            sample_type = self._legacy_type(dataset_class)
        elif dataset_class is None:
            self._fault("", f"expected 'sample_type' or '__class__', found {short_keys(self.document)}")
        # Parse the other keys, each of which may add faults.
        extra = self._extra(foreign=not is_own_module(dataset_module))
        crude = sample_type == CRUDE.name and is_own_module(module)
        if crude:
            dataset_class = None  # format_dataset_config adds the only class of crude datasets.
        config = DatasetConfig(
            sample_type=sample_type,
            module=module,
            crude=crude,
            field_map=self._field_map(),
            sample_loader=self._function("sample_loader"),
            part_filter=self._part_filter(),
            subflavors=self._subflavors(),
            key_format=self._key_format(),
            dataset_class=dataset_class,
            dataset_module=dataset_module,
            extra=extra,
        )
        # Check their combination, and report all faults at once.
        self._check_whole(config)
        if self.faults:
            raise ConfigError(file=self.file, faults=self.faults)
        return config

    def _fault(self, path: str, message: str) -> None:
        self.faults.append(Fault(place=path, message=message))

    def _module_and_class(self, mapping: Mapping[Any, Any], path: str) -> tuple[str, str]:
        module, name = mapping.get("__module__", OWN_MODULE), mapping.get("__class__")
        for key, value in (("__module__", module), ("__class__", name)):
            if not (isinstance(value, str) and value):
                shown = short_repr(value) if key in mapping else "nothing"
                here = f"{path}.{key}" if path else key
                self._fault(here, f"expected the name of a {key.strip('_')}, found {shown}")
        return str(module), name if isinstance(name, str) else ""

    def _sample_type(self) -> tuple[str, str | None]:
        value = self.document["sample_type"]
        if not isinstance(value, Mapping):
            self._fault(
                "sample_type", f"expected a mapping with '__module__' and '__class__', found {short_repr(value)}"
            )
            return OWN_MODULE, None
        for key in value:
            if key not in ("__module__", "__class__"):
                hint = did_you_mean(short_key(key), ("__module__", "__class__"))
                self._fault(f"sample_type.{short_key(key)}", f"there is no such key{hint}")
        module, name = self._module_and_class(value, "sample_type")
        if name and is_own_module(module) and name not in SAMPLE_TYPES:
            self._fault(
                "sample_type.__class__",
                f"there is no sample type {short_repr(name)}{did_you_mean(short_key(name), SAMPLE_TYPES)}",
            )
        return module, name or None

    def _legacy_type(self, dataset_class: str) -> str | None:
        if dataset_class.startswith("Metadataset"):
            self._fault("__class__", "this describes a metadataset, not one dataset; load it by its own path")
        elif dataset_class in _GENERIC_CLASSES:
            self._fault("", f"{dataset_class} needs a 'sample_type'")
        elif dataset_class in _CLASS_TO_SPEC:
            return _CLASS_TO_SPEC[dataset_class].name
        else:
            hint = did_you_mean(short_key(dataset_class), (*_CLASS_TO_SPEC, *_GENERIC_CLASSES))
            self._fault("__class__", f"there is no dataset class {short_repr(dataset_class)}{hint}")
        return None

    def _extra(self, *, foreign: bool) -> dict[str, object]:
        extra: dict[str, object] = {}
        for key, value in self.document.items():
            if key in _KEYS:
                continue
            if key in SPLIT_KEYS and not isinstance(value, str | None):
                what = "file in .nv-meta" if key == "split_config" else "split part"
                self._fault(key, f"expected the name of a {what}, found {short_repr(value)}")
            elif isinstance(key, str) and (foreign or key in _IGNORED_KEYS):
                extra[key] = value
            else:
                self._fault(short_key(key), f"there is no such key{did_you_mean(short_key(key), _KEYS)}")
        return extra

    def _field_map(self) -> FieldMap | None:
        value = self.document.get("field_map")
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self._fault("field_map", f"expected a mapping of fields to parts, found {short_repr(value)}")
            return None
        try:
            return parse_field_map(value, file=self.file)
        except ConfigError as error:
            self.faults += error.faults
            return None

    def _function(self, key: str) -> str | None:
        value = self.document.get(key)
        if value is None:
            return None
        if isinstance(value, str) and _FUNCTION.fullmatch(value):
            return value
        self._fault(key, f"expected 'file.py:function' (a file in .nv-meta), found {short_repr(value)}")
        return None

    def _part_filter(self) -> str | tuple[str, ...] | None:
        value = self.document.get("part_filter")
        if isinstance(value, list):
            if all(isinstance(name, str) for name in value):
                return tuple(value)
            self._fault("part_filter", f"expected names of parts, found {short_repr(value)}")
            return None
        return self._function("part_filter")

    def _subflavors(self) -> dict[str, object]:
        name = "subflavors" if self.document.get("subflavors") is not None else "tags"
        value = self.document.get(name)
        if name == "subflavors" and self.document.get("tags") is not None:
            self._fault("tags", "this is another name of 'subflavors', which is here, too; remove one of them")
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self._fault(name, f"expected a mapping, found {short_repr(value)}")
            return {}
        return {str(key): item for key, item in value.items()}

    def _key_format(self) -> KeyFormat | None:
        value = self.document.get("key_format")
        if value is None:
            return None
        try:
            return checked_key_format(value, source="it")
        except ConfigError as error:
            self._fault("key_format", error.message)
            return None

    def _check_whole(self, config: DatasetConfig) -> None:
        if config.field_map is not None and config.sample_loader is not None:
            self._fault("sample_loader", "expected either 'field_map' or 'sample_loader', found both")
        spec = config.spec
        if spec is None:
            return
        # Crude samples have no fields.
        if spec.crude:
            for key in ("field_map", "sample_loader"):
                if self.document.get(key) is not None:
                    self._fault(key, "crude samples have no fields to fill; name another sample type, or remove this")
            return
        if "field_map" not in self.document and "sample_loader" not in self.document:
            self._fault("", f"expected 'field_map' or 'sample_loader' for a {spec.name}, found neither")
        if config.field_map is None:
            return
        # Compare the fields of the map with the fields of the type.
        names = [known.name for known in spec.fields]
        for name in config.field_map.fields:
            if name not in names:
                self._fault(
                    f"field_map.{short_key(name)}",
                    f"{spec.name} has no such field{did_you_mean(short_key(name), names)}",
                )
        for known in spec.fields:
            if known.required and known.name not in config.field_map.fields:
                self._fault("field_map", f"field {known.name!r} of {spec.name} is missing")
