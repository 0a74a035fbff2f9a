"""Stages that scripts put above a validation dataset by hand, with the keywords of megatron-energon."""

from __future__ import annotations

import warnings
from itertools import islice

from facts import Facts
from megatron.energon import (
    BatchDataset,
    BlendDataset,
    ConcatDataset,
    EpochizeDataset,
    FilterDataset,
    GcDataset,
    GroupBatchDataset,
    IterMapDataset,
    LimitDataset,
    LogSampleDataset,
    MapDataset,
    MixBatchDataset,
    PackingDataset,
    RepeatDataset,
    ShuffleBufferDataset,
    WorkerConfig,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
)

warnings.simplefilter("ignore")
facts = Facts()
config = WorkerConfig(rank=0, world_size=1, num_workers=0)

DIFFERS = {
    "order_of_packs": (
        "Packs, groups and generators above a validation dataset that was built without them join other samples here."
    ),
}


def number(sample):
    return int(sample.text.split()[1])


def parity(value):
    return (value if isinstance(value, int) else number(value)) % 2


def val(path="texts", **options):
    return get_val_dataset(facts.folder / path, **{"batch_size": None} | options, worker_config=config)


def train(**options):
    return get_train_dataset(
        facts.folder / "texts",
        **{"batch_size": None} | options,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        worker_config=config,
    )


def numbers():
    return MapDataset(val(), number, stateless_map_fn=True, map_fn_config={"by": "hand"}, worker_config=config)


def repeated(path="texts", **options):
    return RepeatDataset(val(path), **options, worker_config=config)


def threes(samples):
    return [samples[start : start + 3] for start in range(0, len(samples), 3)]


def packs():
    return PackingDataset(
        numbers(),
        buffer_size=9,
        pre_packer=threes,
        final_packer=list,
        final_packer_stateless=True,
        packer_config={"by": "hand"},
        worker_config=config,
    )


def groups(dataset, *, drop_last=False):
    return GroupBatchDataset(
        dataset,
        fixed_batch_size=64,
        sample_group_key=lambda value: (parity(value), None),
        batcher=lambda values: f"{len(values)} of {parity(values[0])}",
        drop_last=drop_last,
        worker_config=config,
    )


@facts.add
def maps_and_filters():
    chosen = FilterDataset(numbers(), filter_fn=lambda value: value % 100 == 7, worker_config=config)
    return list(islice(get_loader(numbers()), 5)), list(get_loader(chosen))


@facts.add
def batches():
    return [
        [
            len(batch)
            for batch in get_loader(
                BatchDataset(
                    numbers(), batch_size=64, batcher=list, batcher_stateless=True, drop_last=drop, worker_config=config
                )
            )
        ]
        for drop in (False, True)
    ]


@facts.add
def sizes_of_groups():
    return [sorted(get_loader(groups(numbers(), drop_last=drop))) for drop in (False, True)]


@facts.add
def samples_of_packs():
    found = list(get_loader(packs()))
    return len(found), sorted(value for pack in found for value in pack)


@facts.add
def order_of_packs():
    return list(islice(get_loader(packs()), 3))


@facts.add
def length_of_iterated_functions():
    def doubled(samples):
        for sample in samples:
            yield from (sample, sample)

    dataset = IterMapDataset(
        numbers(), doubled, len_map_fn=lambda length: 2 * length, stateless_iter_fn=True, worker_config=config
    )
    return len(dataset), len(get_loader(dataset)), len(list(get_loader(dataset)))


@facts.add
def limits_and_repetitions():
    datasets = [
        LimitDataset(val(), 7, worker_config=config),
        LimitDataset(train(), length=7, reset_after_epoch=True, worker_config=config),
        *(repeated(repeats=repeats) for repeats in (2, 1.5)),
        repeated(repeats=0.5, restart=False),
    ]
    return [len(list(get_loader(dataset))) for dataset in datasets]


@facts.add
def epochs():
    dataset = EpochizeDataset(train(), length=7, worker_config=config)
    loader = get_loader(dataset)
    found = [[sample.text for sample in loader] for _ in range(2)]
    return len(dataset), len(set(found[0] + found[1]))


@facts.add
def concatenations_and_blends():
    joined = ConcatDataset(val(), val("captions"), worker_config=config)
    blend = BlendDataset((repeated(), 3.0), (repeated("captions"), 1), worker_config=config)
    share = sum(type(sample).__name__ == "TextSample" for sample in islice(get_loader(blend), 2000)) / 2000
    finite = BlendDataset((val(), 1), (val("captions"), 1), worker_config=config)
    kinds = [type(sample).__name__ for sample in get_loader(joined)]
    return len(joined), kinds[498:502], round(share, 1), len(finite), len(list(get_loader(finite)))


@facts.add
def mixed_batches():
    inner = [train(batch_size=1) for _ in range(2)]
    dataset = MixBatchDataset(
        (inner[0], 1),
        (inner[1], 3),
        batch_size=6,
        batch_mix_fn=lambda batches: sum(len(batch.text) for batch in batches),
        worker_config=config,
    )
    return list(islice(get_loader(dataset), 3))


@facts.add
def stages_that_only_watch():
    logged = LogSampleDataset(val(batch_size=100), mode="val", get_keys_fn=lambda batch: [], worker_config=config)
    collected = GcDataset(val(), every_n_iter=100, freeze=False, worker_config=config)
    shuffled = ShuffleBufferDataset(val(), size=50, worker_config=config)
    return len(list(get_loader(logged))), len(list(get_loader(collected))), len(set(map(number, get_loader(shuffled))))


@facts.add
def a_long_chain_resumes():
    def chain():
        dataset = BlendDataset((repeated(), 0.7), (repeated(), 0.3), worker_config=config)
        dataset = ShuffleBufferDataset(dataset, 20, worker_config=config)
        return get_savable_loader(EpochizeDataset(groups(dataset), 9, worker_config=config))

    first = chain()
    batches = iter(first)
    for _ in range(5):
        next(batches)
    state = first.save_state_rank()
    expected = [*batches, *first]
    restored = chain()
    restored.restore_state_rank(state)
    return len(expected), [*restored, *restored] == expected


facts.report()
