"""Code that needs bare keys sets an environment variable, and sees the same keys everywhere."""

from __future__ import annotations

import os

os.environ["ENERGON_KEY_FORMAT"] = "key"
os.environ["ENERGON_TRUST_CODE"] = "1"

from facts import Facts, one_process
from megatron.energon import (
    Cooker,
    DefaultTaskEncoder,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    cooker,
    get_savable_loader,
    get_train_dataset,
    stateless,
)

facts = Facts()


@facts.add
def keys():
    return [sample.__key__ for sample in facts.validation("captions")]


@facts.add
def keys_of_training():
    dataset = get_train_dataset(
        facts.folder / "texts",
        batch_size=None,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        repeat=False,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=2),
    )
    return sorted(sample.__key__ for sample in get_savable_loader(dataset))


@facts.add
def keys_of_batches():
    return [batch.__key__ for batch in facts.validation("texts", batch_size=32)]


@facts.add
def crude_samples():
    @stateless
    @cooker(need_primary=True)
    def cook(sample, primary):
        names = sorted(name for name in sample if name != "__subflavors__")
        texts = primary.get(".txt", sample), primary.get(sample["__key__"] + ".txt", sample)
        return TextSample(
            **basic_sample_keys(sample), text=f"{sample['__key__']} {sample['__shard__']} {names} {texts}"
        )

    class Encoder(DefaultTaskEncoder):
        cookers = [Cooker(cook)]

    return [[sample.__key__, sample.text] for sample in facts.validation("crude", task_encoder=Encoder())]


@facts.add
def sample_loader():
    meta = facts.folder / "texts/.nv-meta"
    (meta / "dataset.yaml").write_text("""\
sample_type: {__module__: megatron.energon, __class__: TextSample}
sample_loader: sample_loader.py:sample_loader
part_filter: sample_loader.py:part_filter
""")
    (meta / "sample_loader.py").write_text("""\
def sample_loader(raw):
    parts = sorted(name for name in raw if name != "__subflavors__")
    return {"__key__": raw["__key__"] + "x", "text": f"{raw['__key__']} {raw['__shard__']} {parts} {raw['txt']}"}


def part_filter(part):
    return part == "txt"
""")
    return [[sample.__key__, sample.text] for sample in facts.validation("texts")][:50]


@facts.add
def failed_samples():
    seen = []

    class Encoder(DefaultTaskEncoder):
        @stateless
        def encode_sample(self, sample):
            if "val 3 " in sample.caption:
                raise ValueError
            return sample

    def handler(error, sample, sources=None):
        seen.append(sample.__key__)

    count = len(facts.validation("captions", config=one_process(global_error_handler=handler), task_encoder=Encoder()))
    return seen, count


@facts.add
def excluded():
    split = facts.folder / "captions2/.nv-meta/split.yaml"
    shard = "val/shard_000.tar"
    split.write_text(split.read_text().replace("exclude: []", f"exclude: ['{shard}/val_0000{{0..2}}']"))
    return [sample.__key__ for sample in facts.validation("captions2")]


facts.report()
