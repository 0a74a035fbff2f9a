"""Keep the module paths of version 0.1 importable, and guess the name that a wrong import means.

Documented modules, and modules that define a public name, have moved to sub-packages. Importing an old path returns the
module at its new path: ``loader.training.get_loader`` is ``loader.training.loaders.get_loader``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

_PACKAGE = f"{__package__}."
_FACES = (__package__, "megatron.energon")

_MOVED = {
    "format.dataset_config": "format.documents.dataset_config",
    "format.dataset_index": "format.index.dataset_index",
    "format.field_map": "format.documents.field_map",
    "format.findings": "format.lint.report",
    "format.media_filter": "format.media.kind",
    "format.media_folder": "format.prepare.media_folder",
    "format.media_metadata": "format.media.metadata",
    "format.media_serialization": "integrations.megatron_energon_names",
    "format.prepare_plan": "format.prepare.plan",
    "format.split_config": "format.documents.split_config",
    "format.split_plan": "format.prepare.split_plan",
    "integrations.cyclic_iter": "integrations.energon_dataloader",
    "integrations.multi_epoch_resampler": "integrations.multi_epoch_dataset",
    "metadataset.dataset_subset": "training.datasets.dataset_factory",
    "metadataset.dataset_type": "integrations.megatron_energon_names",
    "metadataset.leaf_plan": "metadataset.documents.leaf_plan",
    "metadataset.open_join": "metadataset.joins.open_join",
    "metadataset.plan_leaves": "metadataset.plans.plan_leaves",
    "metadataset.plan_node": "metadataset.plans.plan_node",
    "metadataset.prepare_join": "metadataset.joins.prepare_join",
    "metadataset.prepare_metadataset": "metadataset.joins.prepare_metadataset",
    "metadataset.subset": "format.documents.subset",
    "metadataset.traverse": "metadataset.plans.traverse",
    "pipeline.batch": "pipeline.stages.batch",
    "pipeline.blend": "pipeline.stages.blend",
    "pipeline.concat": "pipeline.stages.concat",
    "pipeline.epochize": "pipeline.stages.epochize",
    "pipeline.error_handlers": "pipeline.failures.error_handlers",
    "pipeline.filter": "pipeline.stages.filter",
    "pipeline.gc": "pipeline.stages.gc",
    "pipeline.group_batch": "pipeline.stages.group_batch",
    "pipeline.iter_map": "pipeline.stages.iter_map",
    "pipeline.limit": "pipeline.stages.limit",
    "pipeline.log_sample": "pipeline.stages.log_sample",
    "pipeline.map": "pipeline.stages.map",
    "pipeline.mix_batch": "pipeline.stages.mix_batch",
    "pipeline.packing": "pipeline.stages.packing",
    "pipeline.repeat": "pipeline.stages.repeat",
    "pipeline.sample_name": "pipeline.failures.sample_name",
    "pipeline.shuffle_buffer": "pipeline.stages.shuffle_buffer",
    "pipeline.stage": "pipeline.contract.stage",
    "pipeline.worker_config": "pipeline.contract.worker_config",
    "samples.augment_task_encoder": "samples.encoding.augment_task_encoder",
    "samples.batch": "samples.batching.batch",
    "samples.check": "samples.building.check",
    "samples.collate": "samples.batching.collate",
    "samples.concat": "samples.batching.concat",
    "samples.cooking": "samples.encoding.cooking",
    "samples.dataclass_mixins": "samples.sample_dataclass",
    "samples.decoder": "samples.decoding.decoder",
    "samples.default_hook": "samples.hooks",
    "samples.described_dataset": "samples.building.described_dataset",
    "samples.file_store_decoder": "samples.decoding.decoder",
    "samples.hook_context": "samples.hooks",
    "samples.keyword_dataclass": "samples.sample_dataclass",
    "samples.sample_builder": "samples.building.sample_builder",
    "samples.stateless": "samples.hooks",
    "samples.task_encoder": "samples.encoding.task_encoder",
    "stores.lazy": "stores.cache_pool",
    "stores.missing_file": "stores.file_store",
    "stores.no_cache_pool": "stores.cache_pool",
    "stores.primary_file_store": "stores.aux_store",
    "training.data_loader": "training.loaders.data_loader",
    "training.dataset_factory": "training.datasets.dataset_factory",
    "training.dataset_from_config": "training.factories.dataset_from_config",
    "training.dataset_loader": "training.factories.dataset_from_path",
    "training.get_loader": "training.loaders.get_loader",
    "training.joined_factory": "training.factories.joined_factory",
    "training.jsonl_factory": "training.factories.jsonl_factory",
    "training.loaded_dataset": "training.datasets.single_datasets",
    "training.loaded_datasets": "training.datasets.run_datasets",
    "training.random_access": "training.datasets.random_access",
    "training.train_dataset": "training.datasets.get_datasets",
    "training.val_dataset": "training.datasets.get_datasets",
    "training.watchdog_dataset": "training.workers.watchdog",
    "training.webdataset_factory": "training.factories.webdataset_factory",
    "training.webdatasets": "training.factories.webdatasets",
}


class _MovedModules:
    """Finder of modules by their old paths. It is the last finder, so it is used only if all others have failed.

    It does not inherit from ``importlib.abc``: importing that takes a tenth of the time of ``energon --help``.
    """

    def __init__(self, guess: Callable[[str, Iterable[str]], str]) -> None:
        self._guess = guess

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the interface of importlib
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname.removeprefix(_PACKAGE) not in _MOVED or not fullname.startswith(_PACKAGE):
            self._check_spelling(*fullname.rpartition(".")[::2])
            return None
        return ModuleSpec(fullname, cast("Any", self))

    def _check_spelling(self, package: str, name: str) -> None:
        """Check that ``from package import name`` does not misspell a public name: Python then tries it as a module.

        Raises:
            ImportError: It does.
        """
        hint = self._guess(name, vars(sys.modules[package]).get("__all__", ())) if package in _FACES else ""
        if hint:
            raise ImportError(f"cannot import name {name!r} from {package!r}{hint}", name=package)

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None: the default module, which ``exec_module`` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        new_name = _PACKAGE + _MOVED[module.__name__.removeprefix(_PACKAGE)]
        sys.modules[module.__name__] = import_module(new_name)  # the import system returns this entry


def install(guess: Callable[[str, Iterable[str]], str]) -> None:
    """Install the finder, once in a process.

    Args:
        guess: Returns the end of a message about a misspelt name, for which the public names may be meant.
    """
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules(guess))
