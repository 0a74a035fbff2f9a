"""Random access to samples of all kinds of datasets."""

# ruff: noqa: NPY002 - hooks draw from numpy's global generator

from __future__ import annotations

import multiprocessing
import pickle
import random
import shutil
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

from loader import (
    ConfigError,
    Cooker,
    DefaultTaskEncoder,
    EnergonError,
    FormatError,
    IdentityMultiEpochDatasetWrapper,
    MultiEpochDatasetResampler,
    Sample,
    SampleError,
    SkipSample,
    StorageError,
    TextSample,
    TrustError,
    WorkerConfig,
    basic_sample_keys,
    edataclass,
    get_loader,
    get_val_dataset,
    prepare_metadataset,
    random_access,
    stateless,
)
from loader.format.jsonl.index import prepare_jsonl
from loader.storage import open_storage
from tests.e2e.text_dataset import CRUDE, exclude, write_texts
from tests.unit.metadataset.joined_data import JoinedData

ALONE = WorkerConfig(rank=0, world_size=1, num_workers=0)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """157 texts for training in shards of 41, 13, 1, 57, 30, 15; 61 for validation."""
    return write_texts(tmp_path_factory.mktemp("random") / "texts")


def cook(sample: dict[str, Any]) -> TextSample:
    return TextSample(**basic_sample_keys(sample), text=sample["txt"].upper())


class Drawing(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Adds a number drawn from each generator."""

    def encode_sample(self, sample: TextSample) -> TextSample:
        sample.text += f" {random.random()} {np.random.rand()} {torch.rand(1).item()} {self.current_sample_index}"
        return sample


class Cooking(Drawing):
    cookers = (Cooker(cook),)


class Failing(DefaultTaskEncoder[Any, Any, Any, Any]):
    def encode_sample(self, sample: TextSample) -> TextSample:
        if sample.text == "text 50":
            raise ZeroDivisionError("by zero")
        if sample.text == "text 60":
            raise SkipSample
        return sample


def numpy_state() -> Any:
    state: Any = np.random.get_state()
    return state[1].tolist()


def described(sample: Any) -> tuple[str, str]:
    return sample.__key__, sample.text


def test_the_samples_are_those_of_validation_in_its_order(texts: Path) -> None:
    dataset = random_access(texts, "val")
    expected = [
        described(sample) for sample in get_loader(get_val_dataset(texts, worker_config=ALONE, batch_size=None))
    ]
    assert [described(dataset[number]) for number in range(len(dataset))] == expected
    assert [described(sample) for sample in iter(dataset)] == expected
    assert len(dataset) == 61
    assert "61 samples" in repr(dataset)


def test_the_split_part_is_that_of_training_unless_another_is_named(texts: Path) -> None:
    dataset = random_access(texts)
    assert [sample.text for sample in iter(dataset)] == [f"text {number}" for number in range(157)]
    with pytest.raises(ConfigError, match="nowhere"):
        random_access(texts, "nowhere")


def test_numbers_and_slices_are_those_of_a_list(texts: Path) -> None:
    dataset, everything = random_access(texts), [f"text {number}" for number in range(157)]
    numbers: list[Any] = [0, 1, 40, 41, 54, 156, -1, -157, np.int64(7), torch.tensor(9)]
    for number in numbers:
        assert dataset[number].text == everything[int(number)]
    for part in (slice(3, 9), slice(None, None, 50), slice(10, 3, -2), slice(150, 1000), slice(5, 5)):
        assert [sample.text for sample in dataset[part]] == everything[part]
    for too_large in (157, -158, 10**30):
        with pytest.raises(IndexError, match=r"there is no sample .*: the dataset has 157, numbered from 0"):
            dataset[too_large]
    no_numbers: list[Any] = [1.0, None]
    for number in no_numbers:
        with pytest.raises(TypeError):
            dataset[number]


def test_a_key_reads_its_sample_whatever_lies_before_it(texts: Path, tmp_path: Path) -> None:
    dataset = random_access(texts)
    for number in (0, 40, 41, 156):
        full = dataset[number].__key__
        assert dataset[full].text == dataset[full.rpartition("/")[2]].text == f"text {number}"
    copied = tmp_path / "texts"
    shutil.copytree(texts, copied)
    exclude(copied, dataset[3].__key__)
    without, replaced = random_access(copied), random_access(copied, excluded="replace")
    for found in (without, replaced):
        assert found[dataset[9].__key__].text == "text 9"
        with pytest.raises(KeyError, match=r"one sample with the key .*, found an excluded one"):
            found[dataset[3].__key__]


def test_a_key_that_names_no_sample_or_several_is_an_error(texts: Path) -> None:
    dataset = random_access(texts)
    of_validation = random_access(texts, "val")[0].__key__
    for key in ("nothing", of_validation, ""):
        with pytest.raises(KeyError, match=r"expected one sample with the key .*, found none"):
            dataset[key]


def test_without_a_split_part_all_samples_are_there(texts: Path) -> None:
    dataset = random_access(texts, split_part=None)
    assert len(dataset) == 157 + 61
    assert dataset[random_access(texts, "val")[0].__key__].text == random_access(texts, "val")[0].text
    assert "all parts: 218 samples" in repr(dataset)


def test_samples_read_together_equal_those_read_alone(texts: Path) -> None:
    dataset = random_access(texts)
    numbers = [5, 156, 5, 0, -1, 54, 53]
    assert [sample.text for sample in dataset.__getitems__(numbers)] == [dataset[number].text for number in numbers]
    assert dataset.__getitems__([]) == []


def test_a_number_always_returns_the_same_sample(texts: Path) -> None:
    dataset = random_access(texts, task_encoder=Drawing())
    first = [dataset[number].text for number in range(20)]
    random.seed(0)
    state, numpys, torchs = random.getstate(), numpy_state(), torch.get_rng_state()
    again = {number: dataset[number].text for number in (19, 3, 3, 0)}
    assert again == {number: first[number] for number in again}
    assert len({text.split()[2] for text in first}) == 20
    # The generators of the training loop are not affected.
    assert random.getstate() == state
    assert numpy_state() == numpys
    assert torch.equal(torch.get_rng_state(), torchs)
    assert random_access(texts, task_encoder=Drawing(), seed_offset=1)[0].text != first[0]


def test_crude_samples_without_a_cooker_stay_dicts(tmp_path: Path) -> None:
    crude = write_texts(tmp_path / "crude", train=(5,), val=(2,), config=CRUDE)
    assert [sample.text.split()[:2] for sample in iter(random_access(crude, task_encoder=Cooking()))][4] == [
        "TEXT",
        "4",
    ]
    assert random_access(crude)[3]["txt"] == "text 3"


# ------------------------------------------------------------------------------------------- all kinds of datasets


def test_a_jsonl_file_has_random_access(tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_text("".join(f'{{"text": "line {number}"}}\n' for number in range(9)))
    prepare_jsonl(open_storage(tmp_path), "lines.jsonl")

    class Lines(DefaultTaskEncoder[Any, Any, Any, Any]):
        cookers = (Cooker(lambda sample: TextSample(**basic_sample_keys(sample), text=sample["json"]["text"])),)

    dataset = random_access(tmp_path / "lines.jsonl", task_encoder=Lines())
    assert [dataset[number].text for number in (8, 0, -2)] == ["line 8", "line 0", "line 7"]


def test_the_datasets_of_a_metadataset_follow_one_another_each_once(texts: Path, tmp_path: Path) -> None:
    more = write_texts(tmp_path / "more", train=(4, 3), val=(1,), first=1000)
    (tmp_path / "mix.yaml").write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        f"      - {{path: {more}, weight: 9, subflavors: {{from: more}}}}\n"
        f"      - {{path: {texts}, weight: 1, split_part: val, subset: {{range: [50%, 100%]}}}}\n"
    )
    dataset = random_access(tmp_path / "mix.yaml")
    assert [sample.text for sample in iter(dataset)] == [
        *(f"text {number}" for number in range(1000, 1007)),
        *(f"text {number}" for number in range(157 + 30, 157 + 61)),
    ]
    assert dataset[6].__subflavors__ == {"from": "more"}
    assert [sample.text for sample in dataset.__getitems__([7, 6])] == ["text 187", "text 1006"]
    for number in (6, 7):
        assert dataset[dataset[number].__key__].text == dataset[number].text
    with pytest.raises(KeyError, match=r"one sample with the key 'val_2\.tar/00186', found none"):
        dataset["val_2.tar/00186"]  # before the subset
    with pytest.raises(ConfigError, match="expected a split_part for a metadataset, found None"):
        random_access(tmp_path / "mix.yaml", None)
    again = write_texts(tmp_path / "again", train=(4, 3), val=(1,), first=1000)
    (tmp_path / "mix.yaml").write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        f"      - {{path: {more}, weight: 9}}\n      - {{path: {again}, weight: 1}}\n"
    )
    with pytest.raises(KeyError, match=r"the key '01002', found 'train_0.tar/01002' of .*more, .* of .*again"):
        random_access(tmp_path / "mix.yaml")["01002"]


def test_a_join_has_random_access(tmp_path: Path) -> None:
    data = JoinedData(tmp_path)
    data.add_dataset("left", {"a": ["1", "2", "3"], "b": ["4", "5"]})
    data.add_dataset("right", {"c": ["5", "3"], "d": ["1", "4", "2"]})
    (tmp_path / "join.yaml").write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    join:\n"
        "      left: {path: left}\n      right: {path: right}\n"
        "    joiner: {__module__: tests.unit.training.datasets.test_random_access, __class__: Pair}\n"
    )
    prepare_metadataset(tmp_path / "join.yaml")
    dataset = random_access(tmp_path / "join.yaml", trust_code=True)
    assert [sample.text for sample in dataset.__getitems__([4, 0, 2, 0])] == [
        "left/5 right/5", "left/1 right/1", "left/3 right/3", "left/1 right/1",
    ]  # fmt: skip


@edataclass
class Pair(Sample):
    text: str

    @classmethod
    def from_joined(cls, left: TextSample, right: TextSample) -> Pair:
        return cls.derive_from(left, text=f"{left.text} {right.text}")


# -------------------------------------------------------------------------------------------------- excluded samples


def test_excluded_samples_have_no_number(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts", train=(5, 6), val=(3,))
    left_out = {0, 3, 4, 5, 10}
    exclude(texts, *(f"train_{int(number >= 5)}.tar/{number:05d}" for number in left_out), "val_0.tar/00012")
    dataset = random_access(texts)
    kept = [f"text {number}" for number in range(11) if number not in left_out]
    assert [sample.text for sample in iter(dataset)] == kept
    assert len(dataset) == len(kept)
    assert [sample.text for sample in dataset.__getitems__([5, -6, 2])] == [kept[5], kept[0], kept[2]]
    assert [sample.text for sample in iter(random_access(texts, "val"))] == ["text 11", "text 13"]


def test_replace_returns_the_next_sample_for_an_excluded_one(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts", train=(5, 6), val=(3,))
    before = [sample.text for sample in iter(random_access(texts))]
    exclude(texts, *(f"train_{int(number >= 5)}.tar/{number:05d}" for number in (0, 3, 4, 5, 10)))
    dataset = random_access(texts, excluded="replace")
    replaced = {0: 1, 3: 6, 4: 6, 5: 6, 10: 1}
    assert [sample.text for sample in iter(dataset)] == [before[replaced.get(number, number)] for number in range(11)]
    with pytest.raises(ConfigError, match="expected excluded to be 'leave_out' or 'replace', found 'keep'"):
        random_access(texts, excluded="keep")  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------------- failures


def test_the_error_of_a_hook_is_raised_and_names_the_sample(texts: Path) -> None:
    dataset = random_access(texts, task_encoder=Failing())
    with pytest.raises(ZeroDivisionError, match=r"by zero\nwhile building sample 'train_1.tar/00050' of "):
        dataset[50]
    with pytest.raises(SampleError, match=r"skips this sample by SkipSample(.|\n)*train_3.tar/00060"):
        dataset[60]
    assert dataset[51].text == "text 51"  # failures are not counted


def test_a_part_that_does_not_decode_is_named(tmp_path: Path) -> None:
    pictures = write_texts(
        tmp_path / "texts",
        train=(3,),
        val=(1,),
        config="sample_type: {__module__: megatron.energon, __class__: ImageSample}\nfield_map: {image: txt}\n",
    )
    (pictures / ".nv-meta/dataset.yaml").write_text(
        "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: json}\n"
    )
    with pytest.raises(SampleError, match=r"train_0\.tar/00001"):
        random_access(pictures)[1]


def test_a_shard_that_is_cut_short_is_named(tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts", train=(3,), val=(1,))
    dataset = random_access(texts)
    shard = texts / "train_0.tar"
    shard.write_bytes(shard.read_bytes()[:700])
    with pytest.raises(FormatError, match=r"train_0\.tar"):
        dataset[2]
    shard.unlink()
    with pytest.raises(StorageError, match=r"train_0\.tar"):
        random_access(texts)[2]


def test_hooks_that_yield_several_samples_are_refused(texts: Path) -> None:
    class Several(DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Iterator[Any]:
            yield sample
            yield sample

    class Hidden(DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            return (one for one in [sample])

    with pytest.raises(ConfigError, match="encode_sample is a generator, which may yield several samples"):
        random_access(texts, task_encoder=Several())
    with pytest.raises(ConfigError, match="several samples"):
        random_access(texts, task_encoder=Hidden())[0]


def test_arguments_without_effect_are_refused(texts: Path) -> None:
    with pytest.raises(TypeError, match=r"random_access.. has no argument 'batch_size'"):
        random_access(texts, batch_size=3)
    with pytest.raises(TypeError, match="'handler'"):
        random_access(texts, handler=print)


def test_a_dataset_may_not_run_code_unless_it_is_trusted(texts: Path, tmp_path: Path) -> None:
    crude = write_texts(tmp_path / "own", train=(2,), val=(1,))
    (crude / ".nv-meta/dataset.yaml").write_text(
        "sample_type: {__module__: megatron.energon, __class__: TextSample}\n"
        "part_filter: sample_loader.py:parts\nsample_loader: sample_loader.py:load\n"
    )
    (crude / ".nv-meta/sample_loader.py").write_text(
        "def load(sample):\n    return {'text': 'own'}\n\n\ndef parts(part):\n    return True\n"
    )
    with pytest.raises(TrustError):
        random_access(crude)[0]
    assert random_access(crude, trust_code=True)[0].text == "own"


# ------------------------------------------------------------------------------------------------- torch's own loader


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_of_torchs_loader_return_the_same_as_one_process(method: Any, texts: Path) -> None:
    dataset = random_access(texts, task_encoder=Drawing())
    expected = [sample.text for sample in dataset[::10]]
    loader = DataLoader(
        dataset,
        batch_size=4,
        sampler=range(0, 157, 10),
        num_workers=2 if method == "fork" else 1,
        multiprocessing_context=multiprocessing.get_context(method),
    )
    assert [text for batch in loader for text in batch.text] == expected


def test_it_pickles_small_and_without_open_files(texts: Path) -> None:
    dataset = random_access(texts)
    unused = len(pickle.dumps(dataset))
    _ = dataset[3]
    data = pickle.dumps(dataset)
    assert len(data) == unused < 4000
    assert pickle.loads(data)[3].text == "text 3"


def test_a_distributed_sampler_deals_all_samples(texts: Path) -> None:
    dataset = random_access(texts, "val")
    dealt = []
    for rank in range(3):
        sampler: DistributedSampler[Any] = DistributedSampler(dataset, num_replicas=3, rank=rank, shuffle=True)
        sampler.set_epoch(1)
        loader = DataLoader(dataset, 5, sampler=sampler)
        dealt += [text for batch in loader for text in batch.text]
    assert len(dealt) == 63  # the sampler repeats two samples, so that all ranks have the same number
    assert set(dealt) == {sample.text for sample in iter(dataset)}


def test_epochs_over_a_prepared_dataset_have_each_sample_once(texts: Path) -> None:
    dataset = MultiEpochDatasetResampler(IdentityMultiEpochDatasetWrapper(random_access(texts, "val")), num_epochs=2)
    loader = DataLoader(dataset, batch_size=7)
    seen = [text for batch in loader for text in batch.text]
    assert sorted(seen[:61]) == sorted(seen[61:]) == sorted(f"text {number}" for number in range(157, 218))
    assert seen[:61] != seen[61:]


def test_a_hook_may_use_its_own_generator(texts: Path) -> None:
    class Marked(DefaultTaskEncoder[Any, Any, Any, Any]):
        @stateless(restore_seeds=True)
        def encode_sample(self, sample: Any) -> Any:
            sample.text = str(random.random())
            return sample

    dataset = random_access(texts, task_encoder=Marked())
    assert dataset[4].text == dataset[4].text != dataset[5].text


def test_a_second_thread_is_refused_while_a_hook_is_at_work(texts: Path) -> None:
    inside, leave = threading.Event(), threading.Event()

    class Waits(DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            inside.set()
            assert leave.wait(30)
            return sample

    dataset = random_access(texts, task_encoder=Waits())
    found = []
    thread = threading.Thread(target=lambda: found.append(dataset[3]))
    thread.start()
    assert inside.wait(30)
    try:
        with pytest.raises(EnergonError, match="two threads read samples of one dataset"):
            dataset[4]
    finally:
        leave.set()
        thread.join()
    assert [sample.__key__ for sample in found] == [dataset[3].__key__]


class Mixing(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Adds the key of another sample, and numbers drawn before and after it is read."""

    others: Any = None

    def encode_sample(self, sample: TextSample) -> TextSample:
        first = self.rng.random.random(), random.random()
        if self.others is not None and sample.__key__ != "train_0.tar/00003":
            sample.text += f" and {described(self.others[3])[0]}"
        sample.text = f"{sample.text} {first} {self.rng.random.random()} {random.random()} {self.current_batch_index}"
        return sample


def test_a_hook_of_a_loader_may_read_other_samples_by_number(texts: Path) -> None:
    """The context of the outer hook and its generators continue behind the inner ones."""

    def loaded(encoder: Mixing) -> list[str]:
        dataset = get_val_dataset(texts, worker_config=ALONE, batch_size=None, task_encoder=encoder)
        return [sample.text.replace(" and train_0.tar/00003", "") for sample in islice(get_loader(dataset), 5)]

    encoder = Mixing()
    encoder.others = random_access(texts, task_encoder=Mixing())
    assert loaded(encoder) == loaded(Mixing())


def test_a_hook_of_a_dataset_may_read_other_samples_of_it(texts: Path) -> None:
    encoder = Mixing()
    alone = random_access(texts, task_encoder=Mixing())
    encoder.others = dataset = random_access(texts, task_encoder=encoder)
    assert dataset[50].text.replace(" and train_0.tar/00003", "") == alone[50].text
    assert dataset[3].text == alone[3].text


def test_torchs_loader_batches_samples_of_all_types(texts: Path) -> None:
    class Padded(DefaultTaskEncoder[Any, Any, Any, Any]):
        def encode_sample(self, sample: Any) -> Any:
            return {"__key__": sample.__key__, "ids": torch.ones(len(sample.text))}

    (batch, *_) = DataLoader(random_access(texts), batch_size=2)
    assert (type(batch), batch.text, len(batch.__key__)) == (TextSample, ["text 0", "text 1"], 2)
    crude = random_access(texts, dataset_config=None, task_encoder=Padded())
    (batch, *_) = DataLoader(crude, batch_size=2)
    assert batch["ids"].shape == (2, 6)
