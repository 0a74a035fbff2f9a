import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from loader.compat.dataset_from_config import DefaultCrudeJsonlDatasetFactory, get_dataset_from_config
from loader.compat.kinds_and_media import EnergonDatasetType, get_dataset_type
from loader.compat.webdataset_factory import StandardWebdatasetFactory
from loader.errors import ConfigError
from loader.format.documents.yaml_document import parse_yaml
from loader.format.nv_meta import FOLDER as MAIN_FOLDER_NAME
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.samples.encoding.task_encoder import T_sample
from loader.samples.types import CrudeSample
from loader.storage import open_parent
from loader.storage.epath import EPath
from loader.training.datasets.dataset_factory import BaseCoreDatasetFactory

from .typed_converter import JsonParser

__all__ = [
    "MAIN_FOLDER_NAME",
    "BaseCoreDatasetFactory",
    "CrudeSample",
    "DefaultCrudeJsonlDatasetFactory",
    "EPath",
    "EnergonDatasetType",
    "JsonParser",
    "StandardWebdatasetFactory",
    "T_sample",
    "WorkerConfig",
    "get_dataset_from_config",
    "get_dataset_type",
    "load_config",
]

T = TypeVar("T")


def load_config(
    path: str | os.PathLike[str] | Mapping[str, Any],
    *,
    default_type: Callable[..., T],
    default_kwargs: Mapping[str, Any] | None = None,
    parser: JsonParser | None = None,
) -> T:
    """Create an object from a YAML or JSON file, or from a dict.

    Args:
        path: The file, or its content.
        default_type: Class or function to call with the values of the file, if the file names none by ``__module__``
            and ``__class__``.
        default_kwargs: Values for arguments that the file does not have.
        parser: Converts the values; by default one that refuses unknown arguments and code of other libraries.

    Raises:
        ConfigError: The file is not valid YAML; or an argument is missing, unknown or of another type.
        StorageError: The file cannot be read.
        TrustError: The file names code, and the parser does not trust it.

    >>> from megatron.energon.flavors.webdataset.structs import WebdatasetInfo
    >>> load_config({"shard_counts": {"s.tar": 3}}, default_type=WebdatasetInfo)
    WebdatasetInfo(energon_version=None, shard_counts={'s.tar': 3})
    """
    if isinstance(path, Mapping):
        content = path
    else:
        storage, name = open_parent(path)
        file = storage.path(name)
        content = parse_yaml(storage.read(name).decode("utf-8", "replace"), file=file) or {}
        if not isinstance(content, Mapping):
            raise ConfigError(f"expected a mapping, found {type(content).__name__}", file=file)
    return (parser or JsonParser()).raw_to_instance({**(default_kwargs or {}), **content}, default_type)
