"""``EnergonMultiModalDataModule``, ``EnergonDataloader`` and ``cyclic_iter`` behave as described on seed page 000.

The signatures are copied from the page, except for the indentation, which its text form has lost, and the name of a
class of megatron-core, which need not be installed.
"""

from __future__ import annotations

import inspect
import logging
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loader import (
    DefaultTaskEncoder,
    EnergonDataloader,
    EnergonMultiModalDataModule,
    SavableDataLoader,
    WorkerConfig,
    cyclic_iter,
)
from tests.e2e.text_dataset import write_texts

CONSTRUCTOR = """\
path: str,
tokenizer,
image_processor,
seq_length: int = 2048,
micro_batch_size: int = 1,
global_batch_size: int = 1,
num_workers: int = 1,
num_val_workers: int | None = None,
pin_memory: bool = True,
shuffle_buffer_size: int = 100,
max_samples_per_sequence: int | None = None,
multimodal_sample_config: Optional[Any] = None,
task_encoder: Optional[Any] = None,
decoder_seq_length: Optional[int] = None,
packing_buffer_size: Optional[int] = None,
validation_task_encoder: Optional[Any] = None,
pg_collection: Optional[ProcessGroupCollection] = None,
**kwargs,
"""

METHODS = {
    "_build_worker_config": "num_workers: int, split: str = 'train',",
    "datasets_provider": "worker_config, split: Literal[train, val] = 'val',",
    "build": "",
    "train_dataloader": "",
    "val_dataloader": "",
    "test_dataloader": "",
}

ATTRIBUTES = (
    "path tokenizer image_processor seq_length micro_batch_size num_workers pin_memory multimodal_sample_config "
    "task_encoder init_global_step train_dataloader_object val_dataloader_object"
)

TRAIN = 157
VAL = [f"text {number}" for number in range(TRAIN, TRAIN + 61)]


def parameters_on_page(text: str) -> list[tuple[str, Any, Any]]:
    """Return the parameters of a signature in the form of the page: names, kinds and defaults, in order."""
    variables: dict[str, Any] = {}
    exec(f"from __future__ import annotations\ndef found({text}): ...", variables)
    return parameters(variables["found"])


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in found if one.name != "self"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_texts(tmp_path_factory.mktemp("seed000") / "texts"))


def module_of(path: str, **arguments: Any) -> EnergonMultiModalDataModule:
    options = {"num_workers": 0, "micro_batch_size": 4, "max_samples_per_sequence": 10, **arguments}
    return EnergonMultiModalDataModule(path, "a tokenizer", "an image processor", **options)


def texts(loader: Any, batches: int | None = None) -> list[str]:
    return [text for batch in islice(loader, batches) for text in batch.text]


# -------------------------------------------------------------------------------------------------------- signatures


def test_the_constructor_takes_what_the_page_says() -> None:
    # The only difference: derived classes may omit the image processor.
    expected = [
        (name, kind, None if name == "image_processor" else default)
        for name, kind, default in parameters_on_page(CONSTRUCTOR)
    ]
    assert parameters(EnergonMultiModalDataModule.__init__) == expected


@pytest.mark.parametrize("name", METHODS)
def test_its_methods_take_what_the_page_says(name: str) -> None:
    assert parameters(getattr(EnergonMultiModalDataModule, name)) == parameters_on_page(METHODS[name])


def test_the_wrapper_and_the_cyclic_iterator_take_what_the_page_says() -> None:
    assert parameters(EnergonDataloader.__init__) == parameters_on_page("dataloader")
    assert parameters(cyclic_iter) == parameters_on_page("iter")
    for name in ("__next__", "__iter__", "save_state"):
        assert parameters(getattr(EnergonDataloader, name)) == []


def test_a_module_has_the_attributes_that_the_page_lists_and_keeps_its_arguments(path: str) -> None:
    bare = EnergonMultiModalDataModule(path, "a tokenizer")
    for name in ATTRIBUTES.split():
        assert hasattr(bare, name)
    assert (bare.init_global_step, bare.train_dataloader_object, bare.val_dataloader_object) == (0, None, None)
    given: dict[str, Any] = {
        "tokenizer": "t",
        "image_processor": "i",
        "seq_length": 9,
        "decoder_seq_length": 8,
        "global_batch_size": 7,
        "num_workers": 3,
        "num_val_workers": 0,
        "pin_memory": False,
        "multimodal_sample_config": "c",
        "packing_buffer_size": 6,
    }
    module = EnergonMultiModalDataModule(path, **given)
    assert {name: getattr(module, name) for name in given} == given


# ------------------------------------------------------------------------------------------------------- behaviour


def test_training_is_shuffled_and_endless(path: str) -> None:
    loader = module_of(path).train_dataloader()
    epochs = texts(loader, 2 * TRAIN // 4 + 24)  # lanes run through an epoch in parallel
    assert epochs[:8] != sorted(epochs[:8])
    assert {*epochs} == {f"text {number}" for number in range(TRAIN)}
    assert len(epochs) > 2 * TRAIN


def test_validation_repeats_each_sample_once_in_order(path: str) -> None:
    module = module_of(path)
    loader = module.val_dataloader()
    assert texts(loader, 20) == VAL + VAL[:16]
    loader.reset()
    assert texts(loader, 2) == VAL[:8]
    finite = module.val_dataloader_object
    assert isinstance(finite, SavableDataLoader)
    for _ in range(2):
        assert texts(finite) == VAL
    assert len(finite) == 16


def test_validation_as_the_page_has_it_is_a_second_training_stream(path: str) -> None:
    module = module_of(path, validation_as_training=True)
    found = texts(module.val_dataloader(), 16)
    assert found != sorted(found)
    assert {*found} <= {*VAL}
    assert module.val_dataloader_object is not None
    assert len(module.val_dataloader_object) > 0  # the nominal number of an epoch


def test_build_gives_both_loaders_which_stay_the_same(path: str) -> None:
    module = module_of(path)
    train, val = module.build()
    assert isinstance(train, EnergonDataloader)
    assert isinstance(val, EnergonDataloader)
    assert (module.train_dataloader(), module.val_dataloader()) == (train, val)
    assert train.dataloader is module.train_dataloader_object


def test_there_is_no_test_loader_and_it_is_logged_once(path: str, caplog: pytest.LogCaptureFixture) -> None:
    module = module_of(path)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert module.test_dataloader() is None  # type: ignore[func-returns-value]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "test_dataloader() returns None" in caplog.text


def test_the_provider_builds_validation_by_default(path: str) -> None:
    module = module_of(path)
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    assert not module.datasets_provider(config).repeats
    assert module.datasets_provider(config, split="train").repeats


class Shouting(DefaultTaskEncoder[Any, Any, Any, Any]):
    def encode_sample(self, sample: Any) -> Any:
        sample.text = sample.text.upper()
        return sample


def test_validation_may_have_its_own_workers_and_task_encoder(path: str) -> None:
    module = module_of(path, num_workers=3, num_val_workers=0, validation_task_encoder=Shouting())
    assert texts(module.val_dataloader(), 1) == [text.upper() for text in VAL[:4]]
    assert module.val_dataloader_object is not None
    assert module.val_dataloader_object.worker_config.num_workers == 0
    module.train_dataloader()
    assert module.train_dataloader_object is not None
    assert module.train_dataloader_object.worker_config.num_workers == 3
    shared = module_of(path, task_encoder=Shouting())
    assert shared.validation_task_encoder is shared.task_encoder
    assert shared.num_val_workers == 0


def test_further_arguments_go_to_the_datasets(path: str) -> None:
    module = module_of(path, virtual_epoch_length=3, subflavors={"a": "b"}, limit=2)
    assert len(module.train_dataloader().dataloader) == 3
    assert next(module.train_dataloader()).__subflavors__[0] == {"a": "b"}
    assert len(module.val_dataloader().dataloader) == 2
    with pytest.raises(TypeError, match="no argument 'virtual_epoch_lenght'"):
        module_of(path, virtual_epoch_lenght=3).train_dataloader()


def test_ranks_are_those_of_the_pure_data_parallel_group(path: str) -> None:
    dp = SimpleNamespace(rank=lambda: 2, size=lambda: 5)
    dp_cp = SimpleNamespace(rank=lambda: 7, size=lambda: 10)
    module = module_of(path, pg_collection=SimpleNamespace(dp=dp, dp_cp=dp_cp))
    config = module._build_worker_config(3, "val")
    assert (config.rank, config.world_size, config.num_workers) == (2, 5, 3)
    assert config.data_parallel_group is dp
    default = module_of(path)._build_worker_config(3)
    assert default == WorkerConfig.default_worker_config(3)


def test_the_wrapper_continues_from_its_saved_state(path: str) -> None:
    loader = module_of(path, num_workers=2).train_dataloader()
    next(loader)
    state = loader.save_state()
    expected = texts(loader, 5)
    loader.dataloader.close()
    again = module_of(path).train_dataloader()
    again.restore_state(state)
    assert texts(again, 5) == expected
    again.restore_state(state)  # also in the middle of an iteration
    assert texts(again, 5) == expected


def test_a_run_of_two_ranks_continues_on_three(path: str) -> None:
    def loader_of(rank: int, ranks: int) -> EnergonDataloader[Any]:
        group = SimpleNamespace(rank=lambda: rank, size=lambda: ranks)
        return module_of(path, pg_collection=SimpleNamespace(dp=group)).train_dataloader()

    alone = loader_of(0, 1)
    uninterrupted = [texts(alone, 1) for _ in range(12)]
    two = [loader_of(rank, 2) for rank in range(2)]
    assert [texts(loader, 1) for _ in range(3) for loader in two] == uninterrupted[:6]
    states = [loader.save_state() for loader in two]
    three = [loader_of(rank, 3) for rank in range(3)]
    for loader in three:
        loader.restore_state(states)
    assert [texts(loader, 1) for _ in range(2) for loader in three] == uninterrupted[6:]


def test_the_cyclic_iterator_loops_over_what_it_is_given() -> None:
    assert list(islice(cyclic_iter("abc"), 7)) == list("abcabca")


def test_a_folder_that_is_not_prepared_is_named(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="prepare"):
        module_of(str(tmp_path)).build()
