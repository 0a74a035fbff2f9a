"""Life cycle and keywords of loaders, as trainers and their framework adapters use them."""

from __future__ import annotations

import inspect
import json
import warnings

import torch
from facts import Facts
from megatron.energon import (
    SavableDataLoader,
    WorkerConfig,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
)
from megatron.energon.loader import get_loader as get_loader_of_module
from megatron.energon.savable_loader import BasicDataLoader

warnings.simplefilter("ignore")
facts = Facts()

DIFFERS = {
    "type_of_the_sampler": "`loader.sampler` is a `DistributedSampler` without indexes, so that frameworks add none.",
}


def train_dataset(workers=0, rank=0, ranks=1, **config):
    return get_train_dataset(
        facts.folder / "texts",
        batch_size=4,
        shuffle_buffer_size=20,
        max_samples_per_sequence=10,
        worker_config=WorkerConfig(rank=rank, world_size=ranks, num_workers=workers, **config),
    )


def val_dataset(workers=0):
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    return get_val_dataset(facts.folder / "texts", batch_size=50, worker_config=config)


def texts(loader):
    return sorted(text for batch in loader for text in batch.text)


@facts.add
def keywords_of_get_loader_and_get_savable_loader_are_accepted():
    common = {
        "prefetch_factor": 3,
        "cache_pool": None,
        "watchdog_timeout_seconds": 30,
        "watchdog_initial_timeout_seconds": 30,
        "fail_on_timeout": True,
    }
    get_loader(val_dataset(), worker_config=None, **common)
    saving = {"checkpoint_every_sec": 10, "checkpoint_every_min_n_samples": 5, "n_checkpoints": 10}
    loader = get_savable_loader(train_dataset(2), **saving, gc_collect_every_n_steps=2, **common)
    batches = iter(loader)
    return [len(next(batches).text) for _ in range(6)]


@facts.add
def keywords_of_the_classes_are_accepted():
    basic = BasicDataLoader(val_dataset(), gc_collect_every_n_steps=10, gc_freeze_at_start=True, prefetch_factor=2)
    savable = SavableDataLoader(
        val_dataset(2), checkpoint_every_sec=60, gc_collect_every_n_steps=3, gc_freeze_at_start=False
    )
    return texts(basic) == texts(savable), len(texts(get_loader(val_dataset())))


@facts.add
def unknown_keywords_are_refused():
    try:
        get_savable_loader(train_dataset(), prefetch=3)
    except TypeError:
        return True
    return False


@facts.add
def loaders_are_instances_of_torchs_class():
    loaders = [get_loader(val_dataset()), get_savable_loader(train_dataset(2))]
    return [isinstance(loader, torch.utils.data.DataLoader) for loader in loaders] + [
        issubclass(SavableDataLoader, torch.utils.data.DataLoader),
        isinstance(loaders[1], SavableDataLoader),
        bool(loaders[1]),
    ]


@facts.add
def attributes_that_frameworks_read():
    loader = get_savable_loader(train_dataset(2), prefetch_factor=3)
    names = ("batch_size", "batch_sampler", "drop_last", "generator", "timeout", "num_workers", "prefetch_factor")
    more = ("pin_memory", "persistent_workers", "pin_memory_device")
    return {name: getattr(loader, name) for name in names + more}


@facts.add
def type_of_the_sampler():
    return type(get_savable_loader(train_dataset()).sampler).__name__


@facts.add
def start_method_of_workers():
    context = get_savable_loader(train_dataset(2)).multiprocessing_context
    return None if context is None else context.get_start_method()


@facts.add
def datasets_are_iterable_ones_of_torch():
    dataset = train_dataset()
    return [isinstance(one, torch.utils.data.IterableDataset) for one in (dataset, get_loader(dataset).dataset)]


@facts.add
def the_sampler_cannot_be_replaced():
    loader = get_savable_loader(train_dataset())
    try:
        loader.sampler = torch.utils.data.SequentialSampler([1, 2, 3])
    except ValueError:
        return "ValueError"
    return "replaced"


@facts.add
def deprecated_names_of_states():
    first = get_savable_loader(train_dataset())
    batches = iter(first)
    for _ in range(3):
        next(batches)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        states = first.save_state(0)
        second = get_savable_loader(train_dataset())
        second.restore_state(states)
        kinds = [type(one.message).__name__ for one in caught if "restore_state" in str(one.message)]
        kinds += [type(one.message).__name__ for one in caught if "save_state" in str(one.message)]
    return isinstance(states, list), kinds, next(iter(second)).text == next(batches).text


@facts.add
def the_parameters_of_the_states():
    names = ("save_state_rank", "restore_state_rank", "save_state", "restore_state", "restore_sample")
    parameters = {name: inspect.signature(getattr(SavableDataLoader, name)).parameters for name in names}
    ours = {"allow_mix_change", "allow_edited_state"}  # by keyword only
    return {name: len(found.keys() - ours) for name, found in parameters.items()}


@facts.add
def keys_of_the_configuration():
    return sorted(get_savable_loader(train_dataset()).config())


@facts.add
def a_validation_loader_starts_over():
    loader = get_loader_of_module(val_dataset(2))
    return texts(loader) == texts(loader)


@facts.add
def debug_files_of_a_rank_and_its_workers():
    names = {}
    for rank in range(2):
        path = facts.folder / "debug" / "{worker_id}.jsonl"
        path.parent.mkdir(exist_ok=True)
        options = {"worker_debug_path": str(path), "worker_log_level": 2}
        batches = iter(get_savable_loader(train_dataset(2, rank, 2, **options)))
        for _ in range(6):
            next(batches)
    for path in sorted((facts.folder / "debug").iterdir()):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        kinds = {line["t"] for line in lines} & {"SavableLoader.__init__", "SavableDataLoader.yield"}
        names[path.name] = sorted(kinds)
    return names


facts.report()
