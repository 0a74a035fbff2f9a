"""Edit the mix of a run after a checkpoint, and follow each sample: those of datasets that stay come once, in order."""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader import (
    BlendDataset,
    GcDataset,
    SavableDataset,
    ShuffleBufferDataset,
    StateError,
    TaskEncoder,
    TextSample,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
    sample_size_metric,
    stateless,
)
from tests.e2e.text_dataset import write_texts
from tests.elastic_runs import Spread, number_of, sealed, through_json

LANES = 4
FIRST = {"a": 0, "b": 1000, "c": 2000, "d": 3000}  # number of the first sample of each dataset
Build = Callable[[WorkerConfig], SavableDataset[Any]]


@dataclass(frozen=True)
class Mixes:
    """Prepared datasets, and the folder for metadatasets that mix them."""

    folder: Path

    def write(self, *leaves: Mapping[str, Any], kind: str = "blend") -> Path:
        """Write a metadataset under a new name."""
        path = self.folder / f"mix{len(list(self.folder.glob('mix*')))}.yaml"
        document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2"}
        path.write_text(yaml.safe_dump({**document, "splits": {"train": {kind: list(leaves)}}}))
        return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Mixes:
    folder = tmp_path_factory.mktemp("edited")
    for name, first in FIRST.items():
        write_texts(folder / name, train=(41, 13, 30), val=(17, 20), first=first)
    return Mixes(folder)


def leaf(path: str, weight: float, **more: Any) -> dict[str, Any]:
    return {"path": path, "weight": weight, **more}


def epochized(data: Mixes, *leaves: Mapping[str, Any]) -> Path:
    """Write a metadataset with repetitions instead of weights."""
    entries = ({"path": one["path"], "repetitions": one["weight"]} for one in leaves)
    return data.write(*entries, kind="blend_epochized")


class Plain(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that keeps samples unchanged."""


class Packing(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that packs three neighbours, so that the order of samples stays visible."""

    def select_samples_to_pack(self, samples: list[TextSample]) -> list[list[TextSample]]:
        return [samples[start : start + 3] for start in range(0, len(samples), 3)]

    @stateless
    def pack_selected_samples(self, samples: list[TextSample]) -> TextSample:
        return TextSample.extend(samples[0], text=" ".join(sample.text.split()[-1] for sample in samples))


def train(path: Path, config: WorkerConfig, **options: Any) -> SavableDataset[Any]:
    defaults: dict[str, Any] = {"batch_size": 2, "shuffle_buffer_size": 20, "max_samples_per_sequence": 5}
    return get_train_dataset(path, worker_config=config, **defaults | {"task_encoder": Plain()} | options)


def packed(path: Path, config: WorkerConfig) -> SavableDataset[Any]:
    return train(path, config, packing_buffer_size=8, task_encoder=Packing())


Followed = dict[int, list[int]]  # micro-batch of the run → the numbers of its samples


class Follower:
    """The ranks of a run, and the samples that it delivered."""

    def __init__(self, build: Build, spread: Spread, states: Any = None, *, allow: bool = False) -> None:
        self.delivered: Followed = {}
        configs = [
            WorkerConfig(rank=rank, world_size=spread.ranks, num_workers=spread.workers, lanes=LANES)
            for rank in range(spread.ranks)
        ]
        self.loaders = [get_savable_loader(build(config)) for config in configs]
        for loader in self.loaders:
            loader.restore_state_global(states, allow_mix_change=allow)
        self._iterators = [iter(loader) for loader in self.loaders]

    def steps(self, count: int) -> Followed:
        """Fetch micro-batches up to a number of the run."""
        while len(self.delivered) < count:
            for iterator in self._iterators:
                batch = next(iterator)
                texts = batch.text if isinstance(batch.text, list) else [batch.text]
                numbers = [int(word) for text in texts for word in text.split() if word.isdecimal()]
                self.delivered[number_of(batch)] = numbers
        return dict(self.delivered)

    def states(self) -> Any:
        return through_json([loader.save_state_rank() for loader in self.loaders])


@contextmanager
def following(build: Build, spread: Spread, states: Any = None, *, allow: bool = False) -> Iterator[Follower]:
    run = Follower(build, spread, states, allow=allow)
    try:
        yield run
    finally:
        for loader in run.loaders:
            loader.close()


def sequences(*parts: Followed) -> dict[tuple[int, str], list[int]]:
    """Return the samples of each dataset in each lane, in order."""
    found: dict[tuple[int, str], list[int]] = defaultdict(list)
    for part in parts:
        for batch, numbers in sorted(part.items()):
            for number in numbers:
                name = max((first, name) for name, first in FIRST.items() if first <= number)[1]
                found[batch % LANES, name].append(number)
    return found


def assert_continued(name: str, found: Mapping[tuple[int, str], list[int]], whole: Mapping[Any, list[int]]) -> None:
    """Assert that a dataset has in each lane the order of an undisturbed run."""
    for lane in range(LANES):
        own, expected = found[lane, name], whole[lane, name]
        assert len(own) > 2
        assert own == expected[: len(own)], f"{name} in lane {lane}"


def without(sequence: Sequence[int], whole: Sequence[int]) -> list[int]:
    """Return the samples of a sequence that another lacks, up to its last one; the rest must be in order."""
    rest = iter(sequence)
    wanted, lacking = next(rest, None), []
    for number in whole:
        if wanted is None:
            break
        if number == wanted:
            wanted = next(rest, None)
        else:
            lacking.append(number)
    assert wanted is None, f"{wanted} is repeated, or out of order"
    return lacking


@pytest.mark.slow
def test_each_sample_of_a_packed_blend_that_is_edited_twice_is_followed(
    data: Mixes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="loader")
    first = partial(packed, data.write(leaf("a", 3), leaf("b", 2), leaf("c", 1, split_part="val")))
    second = partial(packed, data.write(leaf("d", 2), leaf("a", 1), leaf("c", 1)))  # b is gone, c has another part
    third = partial(packed, data.write(leaf("a", 2), leaf("b", 1), leaf("d", 1)))  # b is back
    with following(first, Spread(1)) as run:
        undisturbed = sequences(run.steps(140))
    with following(first, Spread(2, 1)) as run:
        one, states = run.steps(30), run.states()

    with following(second, Spread(4), states, allow=True) as run:
        two, states_after = run.steps(36), run.states()
        longer = sequences(run.steps(120))
    dropped = [int(count) for count in re.findall(r"drops (\d+) samples", caplog.text)]
    assert len([record for record in caplog.records if "another mix" in record.message]) == 1
    assert "c, train: changed: split part val → train (starts over), weight 0.167 → 0.25" in caplog.text
    assert "b, train: gone, weight 0.333" in caplog.text
    assert "d, train: new, weight 0.5" in caplog.text
    with following(second, Spread(1, 2), states, allow=True) as run:
        again = run.steps(38)
    assert {batch: again[batch] for batch in sorted(two)} == two, "ranks and workers do not change an edited run"
    assert sequences(one, two).keys() == {(lane, name) for lane in range(LANES) for name in "abcd"}
    assert_continued("a", sequences(one, two), undisturbed)
    assert not any(1000 <= number < 2000 for numbers in two.values() for number in numbers)

    with following(second, Spread(2), states_after) as run:  # without the flag: the documents are the same
        resumed, states = run.steps(20), run.states()
    assert sequences(two, resumed)[0, "d"] == longer[0, "d"][: len(sequences(two, resumed)[0, "d"])]

    caplog.clear()
    with following(third, Spread(2, 1), states, allow=True) as run:
        three, states = run.steps(60), run.states()
    assert "d, train: continues at" in caplog.text
    assert "b, train: continues at" in caplog.text
    parts = sequences(one, two, resumed, three)
    assert_continued("a", parts, undisturbed)
    assert_continued("d", sequences(two, resumed, three), longer)
    # The samples of b that waited in buffers when it was gone are dropped, and no others.
    lacking = [len(without(parts[lane, "b"], undisturbed[lane, "b"])) for lane in range(LANES)]
    assert 0 < sum(lacking) <= sum(dropped)  # the others are of the validation part of c

    with following(third, Spread(4, 1), states) as run:
        resumed = run.steps(24)
    with following(third, Spread(1), states) as run:
        again = run.steps(24)
    assert resumed == again


# ------------------------------------------------------------------------------------------------ what is not allowed


def state_of(build: Build, steps: int = 9, *, ranks: int = 1) -> Any:
    with following(build, Spread(ranks)) as run:
        run.steps(steps)
        return run.states()


def refusal(build: Build, states: Any, *, allow: bool = False) -> str:
    with pytest.raises(StateError) as caught:
        Follower(build, Spread(1), states, allow=allow)
    return str(caught.value)


def test_a_changed_mix_is_refused_by_its_differences_and_the_setting_that_allows_it(data: Mixes) -> None:
    old = partial(train, data.write(leaf("a", 3), leaf("b", 1), leaf("c", 1, split_part="val"), leaf("d", 1)))
    new = data.write(leaf("a", 1), leaf("c", 1), leaf("d", 1, shuffle_over_epochs_multiplier=2), leaf("b/../b", 2))
    found = refusal(partial(train, new), state_of(old))
    assert found.startswith("the mix of datasets has changed since this state was saved:\n")
    assert f"{data.folder}/a, train: weight 0.5 → 0.2\n" in found
    assert f"{data.folder}/b, train: weight 0.167 → 0.4\n" in found
    assert f"{data.folder}/c, train: changed: split part val → train (starts over), weight 0.167 → 0.2\n" in found
    assert f"{data.folder}/d, train: changed: shuffle_over_epochs_multiplier 1 → 2 (starts over)" in found
    assert "pass allow_mix_change=True to the call that restores the state, or set ENERGON_ALLOW_MIX_CHANGE=1" in found

    fewer = partial(train, data.write(leaf("a", 3), leaf("d", 2), leaf("b", 1, subset={"range": [3, 20]})))
    found = refusal(fewer, state_of(old))
    assert "c, val: weight 0.167 → none" in found
    assert "b, train: changed: subset or content, samples: 84 → 17 (starts over), weight 0.167" in found


def test_other_arguments_and_other_data_alone_are_refused_as_ever(data: Mixes) -> None:
    old = state_of(partial(train, data.write(leaf("a", 3), leaf("b", 1))))
    new = data.write(leaf("a", 3), leaf("b", 2))
    for allow in (False, True):
        assert "batch_size 2 → 3" in refusal(partial(train, new, batch_size=3), old, allow=allow)
        assert "max_samples_per_sequence 5 → 6" in refusal(
            partial(train, new, max_samples_per_sequence=6), old, allow=allow
        )
    assert "it was 84" not in refusal(partial(train, data.folder / "d"), old)
    assert "another dataset or pipeline" in refusal(partial(train, data.write(leaf("c", 1), leaf("d", 1))), old)


def test_the_environment_allows_a_changed_mix_for_code_that_is_not_edited(
    data: Mixes, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = state_of(partial(train, data.write(leaf("a", 3), leaf("b", 1))))
    new = partial(train, data.write(leaf("a", 3), leaf("b", 2)))
    monkeypatch.setenv("ENERGON_ALLOW_MIX_CHANGE", "1")
    loader = get_savable_loader(new(WorkerConfig(rank=0, world_size=1, num_workers=0)))
    loader.load_state_dict(states[0])
    saved = loader.save_state_rank()
    assert [one["weight"] for one in saved["mix_changes"][0]["leaves"]] == ["0.75 → 0.6", "0.25 → 0.4"]
    monkeypatch.delenv("ENERGON_ALLOW_MIX_CHANGE")
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    for restored in (
        get_savable_loader(new(config)).with_restored_state_rank(states[0], allow_mix_change=True),
        get_savable_loader(new(config)).with_restored_state_global(states, allow_mix_change=True),
    ):
        assert restored.save_state_rank() == saved


def test_orders_that_cannot_change_exactly_are_refused_with_the_reason(data: Mixes) -> None:
    one, two = (leaf("a", 1), leaf("b", 2)), (leaf("a", 2), leaf("b", 2))
    passes = [partial(train, epochized(data, *mix), repeat=False) for mix in (one, two)]
    states = state_of(passes[0])
    assert "cannot continue exactly with another mix: a pass that ends" in refusal(passes[1], states, allow=True)
    assert "allow_mix_change" not in refusal(passes[1], states)
    unshuffled = [
        partial(train, data.write(*mix), shuffle_buffer_size=None, shuffle_over_epochs_multiplier=None)
        for mix in (one, two)
    ]
    assert "not shuffled" in refusal(unshuffled[1], state_of(unshuffled[0]), allow=True)


# --------------------------------------------------------------------------------------------------- other mixes


def check_continued(old: Build, new: Build, kept: str, *, steps: int = 40) -> Any:
    """Assert that some datasets continue in each lane; return the states after the edit."""
    with following(old, Spread(1)) as run:
        whole = sequences(run.steps(steps * 8))
    with following(old, Spread(2)) as run:
        before, states = run.steps(steps), run.states()
    with following(new, Spread(1), states, allow=True) as run:
        after, later = run.steps(steps), run.states()
        rest = {batch: numbers for batch, numbers in run.steps(steps * 2).items() if batch not in after}
    for name in kept:
        assert_continued(name, sequences(before, after), whole)
    with following(new, Spread(2), later) as run:
        assert run.steps(steps) == rest
    return later


def test_repetitions_without_end_and_a_single_dataset_become_other_mixes(data: Mixes) -> None:
    repeated = epochized(data, leaf("a", 2), leaf("b", 0.5))
    weighted = data.write(leaf("b", 1), leaf("a", 1), leaf("d", 1))
    check_continued(partial(train, repeated), partial(train, weighted), "ab")
    check_continued(partial(train, data.folder / "a"), partial(train, weighted), "a")
    check_continued(partial(train, weighted), partial(train, data.folder / "d"), "d")


def test_subsets_of_one_dataset_and_moved_datasets_continue(data: Mixes, tmp_path: Path) -> None:
    low, high = ({"range": some} for some in (["0%", "50%"], ["50%", "100%"]))
    (data.folder / "moved").symlink_to(data.folder / "b")
    old = data.write(leaf("a", 1, subset=low), leaf("b", 1), leaf("a", 2, subset=high))
    new = data.write(leaf("moved", 1), leaf("a", 2, subset=low), leaf("a", 2, subset=high))
    states = check_continued(partial(train, old), partial(train, new), "b")
    changes = [one["change"] for one in states[0]["mix_changes"][0]["leaves"]]
    assert all(change.startswith("continues") for change in changes)
    assert len(changes) == 3


class BySize(Plain):
    @sample_size_metric
    def tokens(self, sample: TextSample) -> float:
        return float(len(sample.text))


def by_size(data: Mixes, config: WorkerConfig, *, weights: Mapping[str, float], **options: Any) -> SavableDataset[Any]:
    """Build a run with a blend by tokens."""
    path = data.folder / f"tokens{len(list(data.folder.glob('tokens*')))}.yaml"
    splits = {
        "train": {"blend": [leaf(name, weight) for name, weight in weights.items()], "blend_weight_unit": "tokens"}
    }
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": splits}
    path.write_text(yaml.safe_dump(document))
    return train(path, config, **{"task_encoder": BySize()} | options)


class PackingBySize(Packing):
    @sample_size_metric
    def tokens(self, sample: TextSample) -> float:
        return float(len(sample.text))


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.sampled(2)
def test_blends_by_volume_are_edited(data: Mixes, packs: bool) -> None:
    options: dict[str, Any] = {"packing_buffer_size": 8, "task_encoder": PackingBySize()} if packs else {}
    builds = [
        partial(by_size, data, weights=weights, **options)
        for weights in ({"a": 1, "b": 1, "c": 2}, {"c": 1, "d": 1, "a": 3})
    ]
    check_continued(builds[0], builds[1], "ac", steps=20)


def test_volumes_count_from_the_edit_on(data: Mixes) -> None:
    builds = [partial(by_size, data, weights={"a": weight, "b": 1}) for weight in (1, 9)]
    with following(builds[0], Spread(1)) as run:
        run.steps(200)
        states = run.states()
    with following(builds[1], Spread(1), states, allow=True) as run:
        numbers = [number for batch in run.steps(100).values() for number in batch]
    sizes = {number: len(f"text {number}") for number in numbers}
    small = sum(sizes[number] for number in numbers if number < 1000)
    assert small / sum(sizes[number] for number in numbers) == pytest.approx(0.9, abs=0.02)


# ------------------------------------------------------------------------------------------- blends composed by hand


def test_inputs_of_a_blend_composed_by_hand_continue(data: Mixes) -> None:
    def build(config: WorkerConfig, *, names: str, weight: float) -> SavableDataset[Any]:
        first, *others = (train(data.folder / name, config) for name in names)
        return BlendDataset((first, weight), *((other, 1) for other in others))

    check_continued(partial(build, names="abc", weight=1), partial(build, names="cda", weight=3), "ac")


def test_a_mix_in_a_blend_composed_by_hand_is_edited(data: Mixes) -> None:
    mixes = [data.write(leaf("a", 1), leaf("b", 1)), data.write(leaf("d", 1), leaf("a", 3))]

    def build(config: WorkerConfig, *, mix: Path, weight: float) -> SavableDataset[Any]:
        return BlendDataset(
            (train(data.folder / "c", config), weight),
            (GcDataset(train(mix, config), every_n_iter=100, freeze=False), 2),
        )

    states = check_continued(partial(build, mix=mixes[0], weight=1), partial(build, mix=mixes[1], weight=2), "ac")
    found = {one["dataset"].rpartition("/")[2]: one["change"] for one in states[0]["mix_changes"][0]["leaves"]}
    assert (found["d, train"], found["b, train"]) == ("new", "gone")
    assert found["a, train"].startswith("continues at")


def test_an_input_that_returns_to_a_blend_composed_by_hand_starts_over(data: Mixes) -> None:
    def build(config: WorkerConfig, *, names: str) -> SavableDataset[Any]:
        return BlendDataset(*((train(data.folder / name, config), 1) for name in names))

    states = state_of(partial(build, names="abc"))
    found = []
    for names in ("ca", "acb", "b"):
        with following(partial(build, names=names), Spread(1), states, allow=True) as run:
            run.steps(40)
            states = run.states()
        found.append(next(iter(states[0]["mix_changes"][-1]["stages"].values()))["origins"])
    assert found == [[2, 0], [0, 2, 3], [3]]


# ------------------------------------------------------------------------------------------------------------ buffers


class Tripled(TaskEncoder[Any, Any, Any, Any]):
    """Encoder whose generator is consumed partly at most saves."""

    @stateless
    def encode_sample(self, sample: TextSample) -> Iterator[TextSample]:
        yield from (sample, sample, sample)


def test_the_rest_of_a_partly_consumed_generator_follows(data: Mixes) -> None:
    old, new = data.write(leaf("a", 1), leaf("b", 1)), data.write(leaf("d", 1), leaf("a", 2))
    check_continued(partial(train, old, task_encoder=Tripled()), partial(train, new, task_encoder=Tripled()), "a")


class Grouping(TaskEncoder[Any, Any, Any, Any]):
    def batch_group_criterion(self, sample: TextSample) -> tuple[int, None]:
        return number_in(sample) % 3, None


def number_in(sample: TextSample) -> int:
    return int(sample.text.split()[-1])


def test_partial_groups_keep_the_samples_of_datasets_that_stay(data: Mixes) -> None:
    def of_group(found: Followed, group: int) -> Followed:
        return {batch: [number for number in numbers if number % 3 == group] for batch, numbers in found.items()}

    old, new = data.write(leaf("a", 1), leaf("b", 1)), data.write(leaf("d", 1), leaf("a", 2))
    build, edited = (partial(train, path, batch_size=3, task_encoder=Grouping()) for path in (old, new))
    with following(build, Spread(1)) as run:
        before, states = run.steps(30), run.states()
        whole = run.steps(200)
    with following(edited, Spread(1, 2), states, allow=True) as run:
        after = run.steps(40)
    assert any(len(state) > 2 for state in states[0]["lane"].values()), "groups wait at the edit"
    for group in range(3):
        assert_continued(
            "a", *(sequences(*(of_group(part, group) for part in parts)) for parts in ((before, after), (whole,)))
        )


def test_samples_of_a_shuffle_buffer_whose_dataset_stays_are_neither_lost_nor_repeated(
    data: Mixes, caplog: pytest.LogCaptureFixture
) -> None:
    def build(config: WorkerConfig, *, path: Path, size: int = 12) -> SavableDataset[Any]:
        return ShuffleBufferDataset(train(path, config, batch_size=None), size)

    old = partial(build, path=data.write(leaf("a", 2), leaf("b", 1)))
    new = partial(build, path=data.write(leaf("d", 1), leaf("a", 1)))
    with following(old, Spread(1)) as run:
        before, states = run.steps(60), run.states()
    with following(new, Spread(1, 1), states, allow=True) as run:
        after = run.steps(40)
    in_order = partial(train, data.write(leaf("a", 2), leaf("b", 1)), batch_size=1)
    with following(in_order, Spread(1)) as run:
        whole = sequences(run.steps(300))
    for lane in range(LANES):
        found = sequences(before, after)[lane, "a"]
        read = whole[lane, "a"][: len(found) + 12]  # up to 12 samples wait in the buffer
        assert not Counter(found) - Counter(read)
        assert len(found) > len(sequences(before)[lane, "a"]) > 5
    assert "drops" in caplog.text


class Doubling(Packing):
    """Encoder that makes a pack of each third of a group, so that a smaller group gives fewer."""

    @stateless
    def pack_selected_samples(self, samples: list[TextSample]) -> Iterator[TextSample]:  # type: ignore[override] # a generator
        for sample in samples:
            yield TextSample.extend(sample, text=f"{sample.text} {len(samples)}")


@pytest.mark.parametrize("encoder", [Packing, Doubling])
@pytest.mark.sampled(2)
def test_packs_in_a_shuffle_buffer_that_lack_samples_of_a_dataset_that_left_do_not_end_the_run(
    data: Mixes, encoder: type[Packing]
) -> None:
    def build(config: WorkerConfig, *, path: Path) -> SavableDataset[Any]:
        packs = train(path, config, batch_size=None, packing_buffer_size=6, task_encoder=encoder())
        return ShuffleBufferDataset(packs, 12)

    old = partial(build, path=data.write(leaf("a", 1), leaf("b", 3)))
    new = partial(build, path=data.write(leaf("a", 1), leaf("d", 1)))
    with following(old, Spread(1)) as run:
        before, states = run.steps(24), run.states()
    assert any(1000 <= number < 2000 for numbers in before.values() for number in numbers)
    with following(new, Spread(2), states, allow=True) as run:
        after = run.steps(60)
    with following(new, Spread(1), states, allow=True) as run:
        again = run.steps(60)
    assert {number: after[number] for number in again.keys() & after.keys()} == again
    assert not any(1000 <= number < 2000 for numbers in after.values() for number in numbers)
    assert any(number < 1000 for numbers in after.values() for number in numbers)


# ------------------------------------------------------------------------------------------------- keys and states


def test_samples_from_before_and_after_an_edit_are_rebuilt_by_their_keys(data: Mixes) -> None:
    old = partial(train, data.write(leaf("a", 1), leaf("b", 1)), batch_size=1)
    new = partial(train, data.write(leaf("d", 1), leaf("a", 1)), batch_size=1)
    with following(old, Spread(1)) as run:
        before = [next(run._iterators[0]) for _ in range(16)]
        states = run.states()
    with following(new, Spread(1), states, allow=True) as run:
        after = [next(run._iterators[0]) for _ in range(16)]
        for batch in (*before, *after):
            if 1000 <= int(batch.text[0].split()[-1]) < 2000:
                with pytest.raises(StateError, match="names no sample of this dataset"):
                    run.loaders[0].restore_sample(batch.__restore_key__)
            else:
                assert run.loaders[0].restore_sample(batch.__restore_key__).text == batch.text
    loader = get_savable_loader(new(WorkerConfig(rank=0, world_size=1, num_workers=0)))
    loader.restore_state_global(states, allow_mix_change=True)
    assert loader.save_state_rank()["lanes"] == LANES


def test_a_state_of_one_rank_knows_its_own_lanes_and_ranks_together_know_all(data: Mixes) -> None:
    old, new = (partial(train, data.write(leaf("a", weight), leaf("b", 1))) for weight in (1, 2))
    states = state_of(old, 12, ranks=2)
    loaders = [get_savable_loader(new(WorkerConfig(rank=rank, world_size=2, num_workers=0))) for rank in range(2)]
    for loader, state in zip(loaders, states, strict=True):
        loader.restore_state_rank(sealed(state), allow_mix_change=True)
    key = ("micro-batch", 1, 1, (3, 4))
    with pytest.raises(StateError, match="the position of lane 1 at that change is not known on this rank"):
        loaders[0].restore_sample(key)
    assert loaders[1].restore_sample(key).text
    later = through_json([loader.save_state_rank() for loader in loaders])
    with following(new, Spread(4), later) as run:
        parted = run.steps(8)
    with following(new, Spread(1), states, allow=True) as run:
        assert run.steps(8) == parted
    other = through_json(later)
    other[1]["mix_changes"][0]["stages"]["0 read"]["origins"] = [1, 0]
    assert "their 'mix_changes' differ" in refusal(new, [*map(sealed, other)])


def test_a_loader_of_the_same_dataset_is_not_edited_by_a_restore_of_another(data: Mixes) -> None:
    states = state_of(partial(train, data.write(leaf("a", 3), leaf("b", 1))))
    path = data.write(leaf("a", 1), leaf("d", 1))
    dataset = train(path, WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=LANES))
    edited, fresh = get_savable_loader(dataset), get_savable_loader(dataset)
    edited.restore_state_global(states, allow_mix_change=True)
    with following(partial(train, path), Spread(1)) as run:
        expected = run.steps(8)
    found = [next(iter(fresh)).text for _ in range(1)]
    assert [int(text.split()[-1]) for text in found[0]] == expected[0]
    edited.restore_state_rank(fresh.save_state_rank())
    assert "mix_changes" not in edited.save_state_rank()


def test_a_refused_restore_keeps_the_mix_of_the_loader(data: Mixes) -> None:
    states = state_of(partial(train, data.write(leaf("a", 3), leaf("b", 1))))
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=LANES)
    loader = get_savable_loader(train(data.write(leaf("a", 1), leaf("d", 1)), config, virtual_epoch_length=5))
    with pytest.raises(StateError, match="counts of 0 virtual epochs and limits"):
        loader.restore_state_global(states, allow_mix_change=True)
    assert "mix_changes" not in loader.save_state_rank()


def damage(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(state: dict[str, Any]) -> None:
        state["mix_changes"][0]["stages"]["0 read"][name] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        damage("origins", [0]),
        damage("origins", [0, 0]),
        damage("origins", [0, -1]),
        damage("origins", [0, 10**30]),
        damage("origins", None),
        damage("weights", []),
        damage("weights", [1.0, float("nan")]),
        damage("weights", "no"),
        damage("lanes", {"0": 10**6}),
        damage("lanes", {"0": -1}),
        damage("lanes", {"x": 1}),
        damage("lanes", {}),
        damage("lanes", None),
        damage("gone", [{"origin": 1}]),
        lambda state: state.update(mix_changes=3),
        lambda state: state.update(mix_changes=[3]),
        lambda state: state["mix_changes"][0].update(stages=3),
        lambda state: state["mix_changes"][0].update(batch=-1),
    ],
)
def test_damaged_changes_of_a_mix_are_refused(data: Mixes, change: Callable[[Any], None]) -> None:
    path = data.write(leaf("a", 1), leaf("b", 1))
    loader = get_savable_loader(train(path, WorkerConfig(rank=0, world_size=1, num_workers=0)))
    loader.restore_state_global(state_of(partial(train, data.write(leaf("a", 3), leaf("b", 1)))), allow_mix_change=True)
    state = through_json(loader.save_state_rank())
    change(state)
    with pytest.raises(StateError, match=r"damaged|not known on this rank"):
        next(iter(loader.with_restored_state_rank(sealed(state))))


@pytest.mark.parametrize("weights", [[0, 0], [float("nan"), 1], [float("inf"), 1], [-1, 1], ["x", 1], [None, 1]])
def test_damaged_weights_of_the_saved_mix_are_refused(data: Mixes, weights: list[Any]) -> None:
    def build(config: WorkerConfig, *, weight: float) -> SavableDataset[Any]:
        return BlendDataset((train(data.folder / "a", config), weight), (train(data.folder / "b", config), 1))

    [state] = state_of(partial(build, weight=3))
    state["dataset"][1]["weights"] = weights
    loader = get_savable_loader(build(WorkerConfig(rank=0, world_size=1, num_workers=0), weight=1))
    with pytest.raises(StateError, match="this state is damaged: the weights of 'BlendDataset'"):
        loader.restore_state_rank(sealed(state), allow_mix_change=True)


def test_validation_is_not_a_mix_that_continues(data: Mixes) -> None:
    def build(config: WorkerConfig, *, name: str) -> SavableDataset[Any]:
        return get_val_dataset(data.folder / name, worker_config=config, batch_size=2, task_encoder=Plain())

    assert "another dataset or pipeline" in refusal(partial(build, name="b"), state_of(partial(build, name="a"), 3))


def test_a_small_dataset_below_a_blend_by_hand_may_get_others(data: Mixes) -> None:
    def mixed(parts: int, config: WorkerConfig) -> SavableDataset[Any]:
        some = replace(config, lanes=48)
        return BlendDataset(*((train(data.folder / name, some), 1) for name in "ab"[:parts]))

    for before, after in ((1, 2), (2, 1)):
        states = state_of(partial(mixed, before))
        assert "deal" not in states[0]
        loader = get_savable_loader(mixed(after, WorkerConfig(rank=0, world_size=1, num_workers=0)))
        loader.restore_state_global(states, allow_mix_change=True)
        assert next(iter(loader)) is not None
