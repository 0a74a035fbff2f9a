"""Code that looks up by `__key__`: cookers with stores, sample loaders, error handlers; keys as they are by default."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from facts import Facts, one_process
from megatron.energon import (
    Cooker,
    DefaultTaskEncoder,
    TextSample,
    basic_sample_keys,
    cooker,
    get_savable_loader,
    get_val_dataset,
    stateless,
)

DIFFERS = {
    "keys": "`__key__` is `<shard>/<key>` here, the bare key there.",
    "keys_of_a_batch": "`__key__` is `<shard>/<key>` here, the bare key there.",
    "keys_of_lines": "`__key__` is `<shard>/<key>` here, the bare key there.",
    "keys_of_failed_samples": "`__key__` is `<shard>/<key>` here, the bare key there.",
}

facts = Facts()


@facts.add
def keys():
    return [sample.__key__ for sample in facts.validation("captions")]


@facts.add
def keys_of_a_batch():
    return facts.validation("texts", batch_size=4)[0].__key__


@facts.add
def keys_of_lines():
    class Encoder(DefaultTaskEncoder):
        cookers = [Cooker(stateless(lambda sample: TextSample(**basic_sample_keys(sample), text="")))]

    folder = Path(sys.executable).parent
    command = [folder / "energon"] if (folder / "energon").exists() else [sys.executable, "-m", "energon_cli"]
    subprocess.run([*command, "prepare", facts.folder / "lines.jsonl"], check=True, stdout=subprocess.DEVNULL)
    return [sample.__key__ for sample in facts.validation("lines.jsonl", task_encoder=Encoder())][:3]


@facts.add
def last_part_of_the_key():
    return [sample.__key__.split("/")[-1] for sample in facts.validation("captions")]


@facts.add
def keys_of_failed_samples():
    seen = []

    class Encoder(DefaultTaskEncoder):
        @stateless
        def encode_sample(self, sample):
            if sample.text.endswith("val 3 word word word"):
                raise ValueError
            return sample

    config = one_process(global_error_handler=lambda error, sample, sources=None: seen.append(sample.__key__))
    count = len(facts.validation("texts", config=config, task_encoder=Encoder()))
    return seen, count


@facts.add
def look_ups_in_stores():
    folder = facts.folder / "notes"
    folder.mkdir()
    for number in range(100):
        (folder / f"val_{number:05}.note").write_text(f"note {number}")
    document = f"""\
__module__: megatron.energon
__class__: MetadatasetV2
splits:
  val:
    path: ./crude
    aux:
      captions: ./captions
      notes: filesystem://{folder}
"""
    (facts.folder / "aux.yaml").write_text(document)

    @stateless
    @cooker(need_primary=True)
    def cook(sample, captions, notes, primary):
        key = sample["__key__"]
        found = [
            captions.get(key + ".txt", sample),
            primary.get(key + ".txt", sample),
            notes.get(key + ".note", sample).decode(),
        ]
        return TextSample(**basic_sample_keys(sample), text=" | ".join(found))

    class Encoder(DefaultTaskEncoder):
        cookers = [Cooker(cook)]

    return [sample.text for sample in facts.validation("aux.yaml", task_encoder=Encoder())]


@facts.add
def restored_sample_is_the_same():
    dataset = get_val_dataset(facts.folder / "texts", batch_size=None, worker_config=one_process())
    loader = get_savable_loader(dataset)
    sample = list(loader)[7]
    return loader.restore_sample(sample.__restore_key__).__key__ == sample.__key__


facts.report()
