"""``megatron.energon`` re-exports this library: the same objects, in the modules that existing code imports."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
import pickle
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from unittest import mock

import click
import megatron.energon
import pytest
import torch
from click.testing import CliRunner
from megatron.energon import alias_modules
from megatron.energon.cli.main import main as megatron_main
from PIL import Image

import loader
from energon_cli.main import cli
from loader.samples.batching import collate
from tests.cli.make_dataset import write_captions
from tests.e2e.dataset_tree import prepare
from tests.source_tree import ALIAS, FREE, PACKAGES, ROOT, sources
from tests.tables import CRUDE_YAML

REAL = [source.module for source in sources() if source.module.startswith(f"{ALIAS}.")]
MODULES = [*REAL, *(f"{ALIAS}.{module}" for module in alias_modules.MODULES)]
PUBLIC: list[str] = vars(loader)["__all__"]  # made at run time: the stub has none
# Names that training code is known to import from submodules.
IMPORTED = {
    "av": "AVDecoder AVData get_clips_uniform get_single_frames_uniform",
    "cache": "CachePool DecodeFileStore FileStore FileStoreCachePool Lazy NoCachePool SystemFileStore",
    "cache.base": "CachePool FileStore FileStoreDecoder Lazy MockLazy PrimaryFileStore",
    "cli.main": "main prepare_media_command",
    "dataset_config": "get_dataset_from_config get_dataset_type load_config",
    "edataclass": "edataclass",
    "epathlib": "DEFAULT_PROFILE_NAME EPath",
    "epathlib.epath": "EPath NVDATASET_CACHE_DIR",
    "errors": "ErrorContext FatalSampleError SampleException SkipSample log_exception reraise_exception",
    "flavors": "AVDecoder BaseWebdatasetFactory CaptioningSample CrudeSample CrudeWebdataset Sample SampleDecoder",
    "flavors.base_dataset": "ExtendableDataclassMixin BaseCoreDatasetFactory PinMemoryMixin Sample SavableDataset "
    "FlexState Savable",
    "flavors.binidx": "BinIdxDatasetFactory BinIdxFileStore DefaultBinIdxDatasetFactory",
    "flavors.captioning": "CaptioningSample CaptioningWebdataset",
    "flavors.jsonl": "CrudeJsonlDatasetFactory DefaultCrudeJsonlDatasetFactory",
    "flavors.webdataset": "BaseWebdatasetFactory DefaultDecoderWebdatasetFactory MAIN_FOLDER_NAME SampleDecoder",
    "flavors.webdataset.base_webdataset": "BaseWebdatasetFactory",
    "flavors.webdataset.config": "INFO_JSON_FILENAME MAIN_FOLDER_NAME SPLIT_YAML_FILENAME",
    "flavors.jsonl.ijsonl": "CachedIJsonlOffsetReader IJsonlFile IJsonlIndexReader IJsonlIndexWriter",
    "flavors.webdataset.metadata": "WebdatasetMeta check_dataset_info_present get_dataset_info get_info_shard_files",
    "flavors.webdataset.prepare": "WebdatasetPreparator",
    "flavors.webdataset.sample_decoder": "SampleDecoder",
    "flavors.webdataset.structs": "DatasetSubset FilteredSample ShardInfo WebdatasetInfo WebdatasetSplits",
    "fork_hook": "DataclassForkMixin ForkMixin WeakCallbacks after_in_child_fork_hook before_fork_hook",
    "loader": "get_loader get_savable_loader",
    "media": "AVMetadata ImageMetadata",
    "media.extractor": "MediaFilterConfig MediaFilterStrategy",
    "media.filesystem_prepare": "prepare_filesystem_dataset",
    "media.metadata": "AVMetadata ImageMetadata MediaMetadataBase MediaMetadataType serialize_media_metadata",
    "metadataset": "DatasetLoader Metadataset MetadatasetV2 load_dataset prepare_metadataset traverse_metadataset",
    "metadataset.loader": "load_dataset prepare_metadataset traverse_metadataset",
    "metadataset.loader_interface": "DatasetBlendMode DatasetLoaderInterface LoadedDataset",
    "recipe": "DatasetLoader MetadatasetV2 Recipe load_dataset prepare_metadataset prepare_recipe traverse_metadataset",
    "recipe.loader": "load_dataset prepare_metadataset traverse_metadataset",
    "recipe.loader_interface": "DatasetBlendMode DatasetLoaderInterface LoadedDataset",
    "sample_utils": "default_get_batch_keys format_sample_compact format_sample_detailed",
    "rng": "SystemRng SystemRngState WorkerRng",
    "savable_loader": "SavableDataLoader SavableDataLoaderState",
    "source_info": "SourceInfo add_source_info get_source_info",
    "task_encoder": "Batch Cooker DefaultTaskEncoder TaskEncoder basic_sample_keys cooker get_train_dataset stateless",
    "task_encoder.base": "Batch DefaultTaskEncoder Sample TaskEncoder WorkerConfig batch_list get_stateless stateless",
    "task_encoder.cooking": "Cooker basic_sample_keys cooker get_cooker_need_cache get_cooker_need_primary",
    "tools.checkpoint": "command",
    "tools.info": "command",
    "tools.lint": "command",
    "tools.prepare": "command",
    "tools.preview": "command",
    "transforms": "CustomTransform MergeTransform TransformMapper",
    "worker": "WorkerConfig",
    "wrappers": "BatchDataset BlendDataset EpochizeDataset PackingDataset SkipSample",
    "savable": "FlexState Savable",
    "state": "FlexState",
    "wrappers.base": "BaseWrapperDataset SampleIndex add_sample_restore_key get_sample_restore_key",
    "wrappers.blend_dataset": "BlendDataset",
    "wrappers.watchdog_dataset": "WatchdogDataset",
}
ALONE = {"get_loader", "get_savable_loader", "get_train_dataset", "get_val_dataset", "get_val_datasets"}
"""Functions that have another default or signature than those of ``loader``."""


def run(code: str, *arguments: str, folder: Path) -> str:
    """Run code in a new interpreter, and return its output."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -------------------------------------------------------------------------------------------------- the names


def test_every_name_of_the_package_is_the_object_of_loader() -> None:
    for name in {*PUBLIC} - ALONE - {"__version__"}:
        assert getattr(megatron.energon, name) is getattr(loader, name), name
    assert {*PUBLIC} <= {*dir(megatron.energon)}


def test_importing_all_names_asks_for_no_package_of_an_extra() -> None:
    names: dict[str, object] = {}
    exec(f"from {ALIAS} import *", names)
    assert {*PUBLIC} - {*names} == {"MegatronDataModule"}


@pytest.mark.parametrize("module", MODULES)
def test_every_submodule_reexports_the_objects_of_loader(module: str) -> None:
    found = importlib.import_module(module)
    for name in {*getattr(found, "__all__", ())} & {*PUBLIC} - ALONE:
        assert getattr(found, name) is getattr(loader, name), name


def test_only_modules_that_run_or_whose_variables_act_have_a_file() -> None:
    """The others are made from the table; what only code for megatron-energon needs is defined in `loader.compat`."""
    assert {*map(relative, REAL)} == {"alias_modules", "cli.main", "epathlib.epath"}


@pytest.mark.parametrize("module", IMPORTED)
def test_training_code_finds_what_it_imports(module: str) -> None:
    found = importlib.import_module(f"{ALIAS}.{module}")
    assert set(IMPORTED[module].split()) <= set(found.__all__)
    for name in IMPORTED[module].split():
        assert hasattr(found, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    for module in ("", ".state", ".savable_loader"):
        found = importlib.import_module(f"{ALIAS}{module}")
        with pytest.raises(AttributeError, match="has no attribute 'get_trian_dataset'"):
            found.get_trian_dataset  # noqa: B018


def test_a_state_of_megatron_energon_can_be_read_but_not_restored(captions: Path) -> None:
    saved = pickle.loads(b"cmegatron.energon.savable_loader\nSavableDataLoaderState\n)\x81.")
    config = loader.WorkerConfig(rank=0, world_size=1, num_workers=0)
    one = loader.get_loader(loader.get_val_dataset(captions, batch_size=2, worker_config=config))
    with pytest.raises(loader.StateError, match="megatron-energon saved this state, a SavableDataLoader"):
        one.restore_state_rank(saved)


class AllowList(pickle.Unpickler):
    """Reads the classes that code for megatron-energon allows in states."""

    def find_class(self, module: str, name: str) -> object:
        assert (module, name) == ("megatron.energon.state", "FlexState")
        return super().find_class(module, name)


def test_a_state_of_a_dataset_is_read_by_the_name_that_lists_of_safe_classes_have() -> None:
    state = megatron.energon.state.FlexState(offset=3)
    assert AllowList(io.BytesIO(pickle.dumps(state))).load() == state
    old = b"cloader.pipeline.contract.user_state\nFlexState\n)\x81\x8c\x06offsetK\x03s."
    assert pickle.loads(old) == state


@pytest.mark.parametrize("name", ["get_train_dataset", "get_val_dataset", "get_val_datasets"])
def test_the_signature_of_a_run_requires_the_configuration_of_workers(name: str, captions: Path) -> None:
    function = getattr(megatron.energon, name)
    parameters = inspect.signature(function).parameters
    assert parameters["worker_config"].default is inspect.Parameter.empty
    assert [*parameters] == [*inspect.signature(getattr(loader, name)).parameters]
    assert pickle.loads(pickle.dumps(function)) is function
    assert function(captions, split_part="val", batch_size=2)


def test_its_commands_end_and_print_as_those_of_megatron_energon(tmp_path: Path) -> None:
    folder = write_captions(tmp_path / "captions", shards=3, samples=8)
    flags = ["prepare", "--non-interactive", "--split-ratio", "1,1,1", "--sample-type", "CrudeWebdataset", str(folder)]
    found = [CliRunner().invoke(megatron_main, [*flags, *more]) for more in ([], [], ["--force-overwrite"])]
    assert [each.exit_code for each in found] == [0, 1, 0]
    assert "already been prepared" in found[1].output
    assert (
        CliRunner().invoke(importlib.import_module("megatron.energon.tools.prepare").command, flags[1:]).exit_code == 1
    )
    assert CliRunner().invoke(cli, ["prepare", "--non-interactive", str(folder)]).exit_code == 0
    folder.joinpath(".nv-meta/small.yaml").write_text(CRUDE_YAML)
    shown = CliRunner().invoke(
        megatron_main,
        ["preview", str(folder), "--dataset-config", "small.yaml", "--split-parts", "train"],
        input="y\n",
    )
    assert " - __key__ (<class 'str'>): '0" in shown.output
    assert "Continue? [y/N]: y\nSample 1\n" in shown.output
    assert shown.output.endswith("Exiting Preview\n")
    assert shown.exit_code == 0
    (tmp_path / "media").mkdir()
    Image.new("RGB", (4, 3)).save(tmp_path / "media/a.png")
    flags = ["--media-metadata-by-extension", str(tmp_path / "media")]
    assert (
        CliRunner()
        .invoke(megatron_main, ["prepare-media", *flags])
        .output.endswith("Done. Stored metadata for 1 files.\n")
    )
    assert "Done" not in CliRunner().invoke(cli, ["prepare-media", *flags]).output


def test_code_that_chooses_by_the_version_takes_the_branch_of_version_7() -> None:
    assert (megatron.energon.__version__, megatron.energon.__toolkit_version__) == ("7.4.1", loader.__version__)


def test_the_folder_of_versions_is_that_of_the_module_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    epath = importlib.import_module(f"{ALIAS}.epathlib.epath")
    monkeypatch.delenv("NVDATASET_CACHE_DIR", raising=False)
    monkeypatch.setattr(epath, "NVDATASET_CACHE_DIR", loader.EPath(tmp_path))
    (tmp_path / "coco/2").mkdir(parents=True)
    (tmp_path / "coco/2/a.txt").write_text("a")
    assert loader.EPath("dss://coco@2/a.txt").read_text() == "a"
    with mock.patch.object(epath, "NVDATASET_CACHE_DIR", None), pytest.raises(loader.ConfigError, match="is not set"):
        loader.EPath("dss://coco@2/a.txt").read_text()
    assert loader.EPath("dss://coco@2/a.txt").read_text() == "a"


def test_a_submodule_does_not_replace_the_decorator_of_its_name() -> None:
    module = importlib.import_module(f"{ALIAS}.edataclass")
    assert module.edataclass is megatron.energon.edataclass is loader.edataclass


def test_importing_it_imports_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys, megatron.energon; print([name for name in ('torch', 'numpy', 'click') if name in sys.modules])"
    assert run(code, folder=tmp_path) == "[]\n"


def test_submodules_of_submodules_need_no_import(tmp_path: Path) -> None:
    code = "import megatron.energon as e; print(e.flavors.captioning.__name__, hasattr(e.flavors, 'nothing'))"
    assert run(code, folder=tmp_path) == "megatron.energon.flavors.captioning False\n"


def test_every_submodule_is_an_attribute_of_the_package() -> None:
    found = {module.removeprefix(f"{ALIAS}.").partition(".")[0] for module in MODULES}
    assert found - {"alias_modules"} == megatron.energon._SUBMODULES


def stub_of(module: str) -> str:
    """Return what type checkers read of a module that the table makes."""
    lines = sorted(
        f"from {home} import {original} as {name}"
        if name == original
        else f"from {home} import {original} as _{original}\n{name} = _{original}"
        for name, home, original in alias_modules.origins(module)
    )
    return "# Written by tests/unit/compat/test_megatron_energon.py from alias_modules.py.\n" + "".join(
        f"{line}\n" for line in lines
    )


def test_type_checkers_read_what_the_table_says() -> None:
    folder = ROOT / PACKAGES[ALIAS]
    is_package = {name.rpartition(".")[0] for name in [*alias_modules.MODULES, *map(relative, REAL)]}
    expected = {
        (folder / module.replace(".", "/") / "__init__.pyi")
        if module in is_package
        else (folder / f"{module.replace('.', '/')}.pyi"): stub_of(module)
        for module in alias_modules.MODULES
    }
    if os.environ.get("ENERGON_WRITE_GOLDEN"):
        for path, text in expected.items():
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(text, encoding="utf-8")
    assert {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.pyi")} == expected


def relative(module: str) -> str:
    return module.removeprefix(f"{ALIAS}.")


def test_the_packages_of_the_wheel_are_those_on_disk() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {source.module if source.is_package else source.module.rpartition(".")[0] for source in sources()}
    assert settings["packages"] == sorted(folders)
    assert settings["package-dir"] == {name: PACKAGES[name] for name in (FREE, ALIAS)}
    assert not (ROOT / "megatron").exists()


def test_the_wheel_has_a_file_for_each_pattern_of_its_data() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    for package, patterns in settings["package-data"].items():
        folder = ROOT / settings["package-dir"].get(package, package)
        assert [pattern for pattern in patterns if not any(folder.glob(pattern))] == []


# ------------------------------------------------------------------------------------------------- loading


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dataset whose ``dataset.yaml`` names a class of a submodule."""
    folder = write_captions(tmp_path_factory.mktemp("alias") / "captions", shards=3, samples=8)
    config = (
        "sample_type: {__module__: megatron.energon.flavors.captioning, __class__: CaptioningSample}\n"
        "field_map: {image: jpg, caption: txt}\n"
    )
    prepare(folder, files={"dataset.yaml": config})
    return folder


TRAINING = """\
import multiprocessing
import pickle
import sys

import megatron.energon as energon
from megatron.energon import Batch, CaptioningSample, DefaultTaskEncoder, WorkerConfig, get_loader
from megatron.energon import loader as submodule
from megatron.energon.edataclass import edataclass
from megatron.energon.flavors.webdataset.sample_decoder import SampleDecoder
from megatron.energon.task_encoder import get_train_dataset, stateless


@edataclass
class Counted(CaptioningSample):
    letters: int


@edataclass
class CountedBatch(Batch):
    letters: list


class Encoder(DefaultTaskEncoder[CaptioningSample, Counted, CountedBatch, CountedBatch]):
    decoder = SampleDecoder(image_decode="torchrgb8")

    @stateless
    def encode_sample(self, sample: CaptioningSample) -> Counted:
        return Counted.extend(sample, letters=len(sample.caption))

    def batch(self, samples: list) -> CountedBatch:
        assert multiprocessing.parent_process() is not None
        return CountedBatch.from_samples(samples)


def main() -> None:
    dataset = get_train_dataset(
        sys.argv[1],
        batch_size=3,
        shuffle_buffer_size=4,
        max_samples_per_sequence=2,
        task_encoder=Encoder(),
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=1),
    )
    loader = get_loader(dataset)
    batch = next(iter(loader))
    loader.close()
    print(type(batch).__module__, type(batch).__qualname__, len(batch.letters))
    sample = Counted(__key__="k", __restore_key__=(), image=None, caption="c", letters=1)
    print(pickle.loads(pickle.dumps(sample)) == sample)

    # Submodules can be used without importing them, and the submodule `loader` is not the package `loader`.
    import loader

    print(energon.task_encoder.base.WorkerConfig is energon.worker.WorkerConfig is WorkerConfig is loader.WorkerConfig)
    print(submodule.__name__, loader.__name__, energon.loader is submodule)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
"""


@pytest.mark.slow
def test_a_training_script_works_with_spawned_workers(captions: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    command = [sys.executable, "-W", "error", str(script), str(captions)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"__main__ CountedBatch 3\nTrue\nTrue\n{ALIAS}.loader loader True\n"


@pytest.mark.parametrize("module", [ALIAS, f"{ALIAS}.metadataset.metadataset_v2"])
def test_data_may_name_classes_of_submodules(captions: Path, tmp_path: Path, module: str) -> None:
    document = {"__module__": module, "__class__": "MetadatasetV2", "splits": {"val": {"path": str(captions)}}}
    path = tmp_path / "mix.yaml"
    path.write_text(json.dumps(document))
    assert isinstance(megatron.energon.load_dataset(path), megatron.energon.MetadatasetV2)
    config = megatron.energon.WorkerConfig(rank=0, world_size=1, num_workers=0)
    dataset = megatron.energon.get_val_dataset(path, batch_size=2, worker_config=config)
    batch = next(iter(megatron.energon.get_loader(dataset)))
    assert type(batch) is megatron.energon.flavors.captioning.CaptioningSample
    assert batch.image.shape == (2, 3, 16, 24)


def test_a_patch_of_a_name_of_the_alias_acts_where_it_is_defined() -> None:
    original = collate.batch_pad_stack
    with mock.patch("megatron.energon.task_encoder.base.batch_pad_stack", return_value="patched"):
        assert collate.batch_pad_stack([]) == "patched"
    assert collate.batch_pad_stack is original is megatron.energon.task_encoder.base.batch_pad_stack
    with mock.patch("megatron.energon.task_encoder.base.DefaultTaskEncoder.batch", return_value="patched"):
        assert loader.DefaultTaskEncoder().batch([]) == "patched"


def test_samples_that_were_pickled_under_either_name_are_the_same_class() -> None:
    sample = loader.TextSample(__key__="k", __restore_key__=(), text="t")
    mine = pickle.dumps(sample, protocol=0)
    theirs = mine.replace(b"cloader.samples.types\n", b"cmegatron.energon.flavors.text\n")
    assert mine != theirs
    assert pickle.loads(theirs) == pickle.loads(mine) == sample
    file = io.BytesIO()
    torch.save({"sample": sample}, file)
    file.seek(0)
    assert torch.load(file, weights_only=False)["sample"] == sample


def test_the_commands_are_the_programs(tmp_path: Path) -> None:
    from megatron.energon.cli.main import main
    from megatron.energon.tools import info

    assert CliRunner().invoke(main, ["--version"]).output == f"energon {loader.__version__}\n"
    failed = CliRunner().invoke(main, ["info", str(tmp_path)])
    assert failed.exit_code == 1
    assert "Traceback" not in failed.output
    assert info.command is main.get_command(click.Context(main), "info")
    module = [sys.executable, "-m", "megatron.energon.cli.main", "--version"]
    assert (
        subprocess.run(module, capture_output=True, text=True, check=True).stdout == f"energon {loader.__version__}\n"
    )


def test_importing_it_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.reload(importlib.import_module("energon_cli.installation")).check_alias()


def test_the_map_of_the_compatibility_room_names_every_module() -> None:
    page = (ROOT / "docs/explanation/compatibility.md").read_text(encoding="utf-8")
    modules = {
        str(source.path.relative_to(ROOT))
        for source in sources()
        if source.path.is_relative_to(ROOT / "loader/compat") and not source.is_package
    }
    assert not {module for module in modules if f"](../../{module})" not in page}
