"""The modules of ``megatron.energon`` that only provide names of this library under the paths of existing code.

Importing one makes it from these tables. Type checkers read the stubs next to this file, which
``ENERGON_WRITE_GOLDEN=1 pytest tests/unit/integrations/test_megatron_energon.py`` writes from them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

__all__ = ["FOLDER", "HOMES", "MODULES", "PACKAGE", "AliasFinder", "install", "origin_of", "origins"]

PACKAGE = "megatron.energon"
FOLDER = Path(__file__).parent
MODULES = {
    "av": "AVData AVDecoder AVWebdatasetDecoder get_clips_uniform get_single_frames_uniform",
    "av.av_data": "AVData",
    "av.av_decoder": "AVData AVDecoder AVMetadata AVProbeIndex AVWebdatasetDecoder",
    "av.utils": "AVData AVDecoder get_clips_uniform get_single_frames_uniform",
    "cache": (
        "CachePool DecodeFileStore DirectLazy FileCacheLazy FileStore FileStoreCachePool FileStoreDecoder "
        "Lazy MockLazy NoCachePool PrimaryFileStore SystemFileStore"
    ),
    "cache.base": (
        "CachePool FileStore FileStoreDecoder Lazy MediaMetadataBase MockLazy PrimaryFileStore SourceInfo "
        "add_source_info edataclass"
    ),
    "cache.file_cache_pool": (
        "CacheFileLazy CachePool FileCacheLazy FileStore FileStoreCachePool ForkMixin Lazy SourceInfo "
        "add_source_info edataclass"
    ),
    "cache.file_store": (
        "INDEX_SQLITE_FILENAME MAIN_FOLDER_NAME DecodeFileStore JsonlFileStore SystemFileStore WebdatasetFileStore"
    ),
    "cache.no_cache": "CachePool DirectLazy FileStore Lazy MockLazy NoCachePool SourceInfo add_source_info edataclass",
    "cli": "",
    "edataclass": "edataclass",
    "epathlib": "DEFAULT_PROFILE_NAME EPath",
    "flavors": (
        "AVData AVDecoder BaseCoreDatasetFactory BaseWebdatasetFactory BinIdxDatasetFactory BinIdxFileStore "
        "CaptioningSample CaptioningWebdataset CrudeJsonlDatasetFactory CrudeSample CrudeWebdataset "
        "DefaultBinIdxDatasetFactory DefaultCrudeJsonlDatasetFactory DefaultDecoderWebdatasetFactory "
        "DefaultGenericWebdatasetFactory EmptyDatasetError ImageClassificationSample "
        "ImageClassificationWebdataset ImageSample ImageWebdataset InterleavedSample InterleavedWebdataset "
        "JoinedWebdatasetFactory MultiChoiceVQASample MultiChoiceVQAWebdataset OCRSample OCRWebdataset "
        "PinMemoryMixin Sample SampleDecoder SavableDataset SimilarityInterleavedSample "
        "SimilarityInterleavedWebdataset StandardWebdatasetFactory TextSample TextWebdataset VQAOCRWebdataset "
        "VQASample VQAWebdataset VidQASample VidQAWebdataset WebdatasetMeta"
    ),
    "flavors.binidx": "BinIdxDatasetFactory BinIdxFileStore DefaultBinIdxDatasetFactory",
    "flavors.captioning": "CaptioningSample CaptioningWebdataset",
    "flavors.crude": "CrudeSample CrudeWebdataset",
    "flavors.image": "ImageSample ImageWebdataset",
    "flavors.image_classification": "ImageClassificationSample ImageClassificationWebdataset",
    "flavors.interleaved": "InterleavedSample InterleavedWebdataset",
    "flavors.jsonl": "CrudeJsonlDatasetFactory DefaultCrudeJsonlDatasetFactory",
    "flavors.jsonl.crude_jsonl_dataset": "CrudeJsonlDatasetFactory DefaultCrudeJsonlDatasetFactory",
    "flavors.multichoice_vqa": "MultiChoiceVQASample MultiChoiceVQAWebdataset",
    "flavors.ocr": "OCRSample OCRWebdataset",
    "flavors.similarity_interleaved": "SimilarityInterleavedSample SimilarityInterleavedWebdataset",
    "flavors.text": "TextSample TextWebdataset",
    "flavors.vid_qa": "VidQASample VidQAWebdataset",
    "flavors.vqa": "VQASample VQAWebdataset",
    "flavors.vqa_and_ocr": "VQAOCRSample VQAOCRWebdataset",
    "flavors.webdataset": (
        "MAIN_FOLDER_NAME AVData AVDecoder BaseWebdatasetFactory DefaultDecoderWebdatasetFactory "
        "DefaultGenericWebdatasetFactory EmptyDatasetError JoinedWebdatasetFactory SampleDecoder "
        "StandardWebdatasetFactory WebdatasetMeta"
    ),
    "flavors.webdataset.base_webdataset": (
        "BaseCoreDatasetFactory BaseWebdatasetFactory DatasetSubset EPath FileStore FilteredSample MapDataset "
        "SavableDataset T_sample WorkerConfig"
    ),
    "flavors.webdataset.default_decoder_webdataset": "DefaultDecoderWebdatasetFactory",
    "flavors.webdataset.default_generic_webdataset": "MAIN_FOLDER_NAME DefaultGenericWebdatasetFactory",
    "flavors.webdataset.empty_dataset_error": "EmptyDatasetError",
    "flavors.webdataset.joined_webdataset": "JoinedWebdatasetFactory",
    "flavors.webdataset.prepare": (
        "INDEX_SQLITE_FILENAME INDEX_UUID_FILENAME INFO_JSON_FILENAME INFO_YAML_FILENAME MAIN_FOLDER_NAME "
        "AggregatorPool BaseAggregator DuplicateSampleKeyError EPath IndexAggregatable IndexMediaMetadata "
        "IndexSample IndexSamplePart MediaFilterConfig ShardInfo SqliteIndexWriter WebdatasetPreparator"
    ),
    "flavors.webdataset.sample_decoder": "AVWebdatasetDecoder FileStoreDecoder SampleDecoder",
    "flavors.webdataset.standard_webdataset": "StandardWebdatasetFactory",
    "loader": (
        "GC_DEFAULT_EVERY_N_ITER CachePool DataLoader SavableDataLoader SavableDataset WorkerConfig "
        "get_loader get_savable_loader"
    ),
    "media": (
        "AVMetadata ImageMetadata MediaMetadataBase MediaMetadataType deserialize_media_metadata "
        "serialize_media_metadata"
    ),
    "media.extractor": (
        "AVDecoder EPath ImageMetadata MediaFilterConfig MediaFilterStrategy MediaMetadataBase MediaMetadataType"
    ),
    "media.filesystem_prepare": (
        "INDEX_SQLITE_FILENAME MAIN_FOLDER_NAME EPath MediaFilterConfig prepare_filesystem_dataset "
        "serialize_media_metadata"
    ),
    "media.metadata": (
        "AVMetadata ImageMetadata MediaMetadataBase MediaMetadataType deserialize_media_metadata edataclass "
        "serialize_media_metadata"
    ),
    "metadataset": (
        "DatasetLoader DatasetLoaderInterface Metadataset MetadatasetV2 load_dataset prepare_metadataset "
        "traverse_metadataset"
    ),
    "metadataset.dataset_loader": "DatasetLoader",
    "metadataset.loader": (
        "DatasetLoader DatasetLoaderInterface EPath EnergonDatasetType Metadataset TraversedDatasetReference "
        "get_dataset_type load_dataset prepare_metadataset traverse_metadataset"
    ),
    "metadataset.loader_interface": (
        "BaseCoreDatasetFactory DatasetBlendMode DatasetLoaderInterface DatasetSubset EPath FileStore "
        "LoadedDataset LoadedDatasetList TraversedDatasetReference WorkerConfig edataclass"
    ),
    "metadataset.metadataset": "Metadataset",
    "sample_utils": "default_get_batch_keys format_sample_compact format_sample_detailed",
    "savable": "FlexState Savable",
    "source_info": "EPath SourceInfo add_source_info get_source_info",
    "task_encoder": (
        "AugmentTaskEncoder Batch Cooker DefaultTaskEncoder TaskEncoder basic_sample_keys batch_list "
        "batch_pad_stack batch_stack cooker generic_batch get_train_dataset get_val_dataset get_val_datasets "
        "skip_safe stateless"
    ),
    "task_encoder.base": (
        "AugmentTaskEncoder Batch BatchDataset BlendDataset CachePool ConcatDataset Cooker CrudeSample "
        "CrudeWebdataset DatasetBlendMode DecodeFileStore DefaultTaskEncoder EpochizeDataset "
        "ExtendableDataclassMixin FileStore GroupBatchDataset LimitDataset LoadedDataset LogSampleDataset "
        "MapDataset PackingDataset PinMemoryMixin PrimaryFileStore RepeatDataset Sample SampleDecoder "
        "SavableDataset ShuffleBufferDataset SourceInfo T_batch T_encoded_sample T_raw_batch T_sample "
        "TaskEncoder WorkerConfig batch_list batch_pad_stack batch_stack edataclass generic_batch "
        "get_failure_tolerance get_stateless skip_safe stateless"
    ),
    "task_encoder.cooking": (
        "Cooker Sample SourceInfo T_sample basic_sample_keys cooker get_cooker_need_cache get_cooker_need_primary"
    ),
    "task_encoder.loader": "get_train_dataset get_val_dataset get_val_datasets",
    "tools": "",
    "tools.analyze_debug": "command=energon_cli.runs.analyze_debug:analyze_debug",
    "tools.checkpoint": (
        "command=energon_cli.checkpoint.command:checkpoint command_info=energon_cli.checkpoint.info:info "
        "command_redist=energon_cli.checkpoint.redist:redist"
    ),
    "tools.info": "command=energon_cli.info.command:info",
    "tools.lint": "command=energon_cli.lint.command:lint",
    "tools.prepare": "command=energon_cli.prepare.command:prepare",
    "tools.prepare_media": "command=energon_cli.prepare.media:prepare_media",
    "tools.preview": "command=energon_cli.preview.command:preview",
    "transforms": (
        "CenterCropMapper CustomTransform MergeTransform RandomCropMapper RandomHorizontalFlipMapper "
        "RandomPerspectiveMapper RandomResizedCropMapper RandomRotationMapper RandomVerticalFlipMapper "
        "ResizeMapper TransformMapper"
    ),
    "worker": "CachePool SourceInfo WorkerConfig log_exception reraise_exception",
    "wrappers": (
        "BatchDataset BlendDataset ConcatDataset EpochizeDataset FilterDataset GcDataset GroupBatchDataset "
        "IterMapDataset LimitDataset LogSampleDataset MapDataset MixBatchDataset PackingDataset RepeatDataset "
        "ShuffleBufferDataset SkipSample concat_pad generic_concat homogeneous_concat_mix"
    ),
    "wrappers.base": (
        "BaseSingleWrapperDataset BaseWrapperDataset FlexState RestoreKey Sample SampleIndex Savable "
        "SavableDataset T_sample WorkerConfig WrappedRestoreKey add_sample_restore_key get_sample_restore_key "
        "wrap_sample_restore_key"
    ),
    "wrappers.batch_dataset": "BatchDataset",
    "wrappers.blend_dataset": "BlendDataset SavableDataset T_sample WorkerConfig",
    "wrappers.concat_dataset": "ConcatDataset",
    "wrappers.epochize_dataset": "EpochizeDataset",
    "wrappers.filter_dataset": "FilterDataset",
    "wrappers.gc_dataset": "GC_DEFAULT_EVERY_N_ITER GcDataset",
    "wrappers.group_batch_dataset": "GroupBatchDataset",
    "wrappers.iter_map_dataset": "IterMapDataset",
    "wrappers.limit_dataset": "LimitDataset",
    "wrappers.log_sample_dataset": "LogSampleDataset",
    "wrappers.map_dataset": "MapDataset",
    "wrappers.mix_batch_dataset": "MixBatchDataset concat_pad generic_concat homogeneous_concat_mix",
    "wrappers.packing_dataset": "PackingDataset",
    "wrappers.repeat_dataset": "RepeatDataset",
    "wrappers.shuffle_buffer_dataset": "ShuffleBufferDataset",
    "wrappers.skip": "SkipSample",
    "wrappers.watchdog_dataset": "SavableDataset T_sample WatchdogDataset WorkerConfig",
}
"""The names of each module; ``a=module:b`` is ``b`` of a module by the name ``a``."""

HOMES = {
    "loader.av.av_data": "AVData",
    "loader.av.av_decoder": "AVDecoder",
    "loader.av.uniform_clips": "get_clips_uniform get_single_frames_uniform",
    "loader.format.media.metadata": "AVMetadata ImageMetadata MediaMetadataBase",
    "loader.integrations.megatron_energon_names": (
        "EnergonDatasetType MediaFilterConfig MediaFilterStrategy MediaMetadataType "
        "deserialize_media_metadata get_dataset_type prepare_filesystem_dataset prepare_metadataset "
        "serialize_media_metadata"
    ),
    "loader.metadataset.plans.traverse": "TraversedDatasetReference",
    "loader.pipeline.contract.restore_keys": (
        "RestoreKey SampleIndex WrappedRestoreKey add_sample_restore_key get_sample_restore_key wrap_sample_restore_key"
    ),
    "loader.pipeline.contract.user_state": "FlexState Savable",
    "loader.pipeline.failures.sample_name": "default_get_batch_keys",
    "loader.pipeline.stages.gc": "GC_DEFAULT_EVERY_N_ITER",
    "loader.pipeline.stages.wrapper": "BaseSingleWrapperDataset BaseWrapperDataset",
    "loader.samples.building.described_dataset": "FilteredSample",
    "loader.samples.decoding.webdataset_decoder": "AVWebdatasetDecoder",
    "loader.samples.encoding.cooking": "get_cooker_need_cache=needs_cache get_cooker_need_primary=needs_primary",
    "loader.samples.encoding.task_encoder": "T_batch T_encoded_sample T_raw_batch T_sample",
    "loader.samples.hooks": "get_failure_tolerance=failure_tolerance get_stateless=is_stateless",
    "loader.samples.sample_dataclass": "ExtendableDataclassMixin PinMemoryMixin",
    "loader.samples.sample_format": "format_sample_compact format_sample_detailed",
    "loader.samples.source_info": "add_source_info get_source_info",
    "loader.stores.dataset_file_store": "WebdatasetFileStore=DatasetFileStore",
    "loader.stores.file_store_cache_pool": "CacheFileLazy",
    "loader.training.datasets.dataset_factory": "DatasetSubset",
    "loader.training.datasets.run_datasets": "LoadedDatasetList=LoadedDatasets",
    "loader.training.datasets.single_datasets": "DatasetBlendMode LoadedDataset",
    "loader.training.factories.webdataset_factory": "WebdatasetPreparator",
    ".av.av_reader": "AVProbeIndex",
    ".epathlib.epath": "DEFAULT_PROFILE_NAME",
    ".flavors.webdataset.aggregator_pool": "AggregatorPool BaseAggregator",
    ".flavors.webdataset.config": (
        "INDEX_SQLITE_FILENAME INDEX_UUID_FILENAME INFO_JSON_FILENAME INFO_YAML_FILENAME MAIN_FOLDER_NAME"
    ),
    ".flavors.webdataset.indexing": (
        "DuplicateSampleKeyError IndexAggregatable IndexMediaMetadata IndexSample IndexSamplePart SqliteIndexWriter"
    ),
    ".flavors.webdataset.metadata": "WebdatasetMeta",
    ".flavors.webdataset.structs": "ShardInfo",
    ".fork_hook": "ForkMixin",
    ".savable_loader": "get_loader get_savable_loader",
    ".transforms.custom": "CustomTransform",
    ".transforms.mappers": (
        "CenterCropMapper RandomCropMapper RandomHorizontalFlipMapper RandomPerspectiveMapper "
        "RandomResizedCropMapper RandomRotationMapper RandomVerticalFlipMapper ResizeMapper TransformMapper"
    ),
    ".transforms.merge": "MergeTransform",
}
"""The modules of names that ``loader`` itself does not provide; ``a=b`` is ``b`` by the name ``a``."""

_HOMES = {
    word.partition("=")[0]: (module, word.rpartition("=")[2])
    for module, words in HOMES.items()
    for word in words.split()
}


def origins(module: str) -> Iterator[tuple[str, str, str]]:
    """Yield each name of a module, with the module and the name of its object."""
    for word in MODULES[module].split():
        name, _, origin = word.partition("=")
        home, _, original = origin.partition(":")
        yield name, *((home, original) if origin else origin_of(name))


def origin_of(name: str) -> tuple[str, str]:
    """Return the module and the name of the object of a public name."""
    home, original = _HOMES.get(name, ("loader", name))
    return f"{PACKAGE}{home}" if home.startswith(".") else home, original


class AliasFinder(MetaPathFinder, Loader):
    """Finds the modules of the table, and makes them."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        module = fullname.removeprefix(f"{PACKAGE}.")
        if module == fullname or module not in MODULES:
            return None
        folder = FOLDER.joinpath(*module.split("."))
        spec = ModuleSpec(fullname, self, origin=__file__)
        if folder.is_dir() or any(name.startswith(f"{module}.") for name in MODULES):  # a package
            spec.submodule_search_locations = [str(folder)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        names = {
            name: getattr(import_module(home), original)
            for name, home, original in origins(module.__name__.removeprefix(f"{PACKAGE}."))
        }
        vars(module).update(names, __all__=list(names))


def install() -> None:
    """Add the finder of these modules to those of Python."""
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
