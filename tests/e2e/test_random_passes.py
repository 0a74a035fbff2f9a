"""Random pipelines of passes that end deliver each sample as often as computed, over resumes on any ranks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, ClassVar

import pytest

from loader import SavableDataset, TextSample, stateless
from tests.e2e import random_passes as drawing
from tests.e2e.drawing_encoders import number_in
from tests.e2e.random_passes import Drawn, Samples, Source, draw_pipeline
from tests.e2e.text_dataset import write_texts
from tests.elastic_runs import Pipeline, Run, Spread, running, through_json, through_torch

pytestmark = pytest.mark.filterwarnings("ignore:.* iterates its samples itself:RuntimeWarning")

_MAX_STEPS = 5000


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    folder = tmp_path_factory.mktemp("random")
    shards = {0: (11, 3, 1, 12), 1000: (2,), 2000: (9, 14, 7, 1)}
    return [
        Source(write_texts(folder / f"from_{first}", train=sizes, val=(1,), first=first), first, sum(sizes))
        for first, sizes in shards.items()
    ]


def samples_in(run: Run) -> Samples:
    return Counter(int(number) for batch in run.delivered.values() for number in re.findall(rb"<(\d+)>", batch))


def finished(run: Run) -> Samples:
    for _ in range(_MAX_STEPS):
        if not run.step():
            return samples_in(run)
    raise AssertionError(f"the pass has not ended after {_MAX_STEPS} steps")


def check(drawn: Drawn, random: Random, spreads: list[Spread], *, lanes: int, resumes: int) -> None:
    """Run a pipeline without a break, and with two breaks at random steps."""
    pipeline = Pipeline(build=drawn.build, batches=None, known_ahead=False, lanes=lanes)
    with running(pipeline, random.choice(spreads)) as run:
        check_samples(finished(run), drawn, f"{run.spread}")
    for _ in range(resumes):
        ran: list[str] = []
        found, states = Counter[int](), None
        for steps in (random.choice((0, 1, 2, 3, 5, 8, 13, 30)), random.choice((0, 1, 2, 4, 9)), _MAX_STEPS):
            with running(pipeline, random.choice(spreads), states) as run:
                ran.append(f"{run.spread}")
                more = True
                for _ in range(steps):
                    more = more and run.step()
                found += samples_in(run)
                states = random.choice((through_json, through_torch))(run.states())
            if all(state["ended"] for state in states):
                break  # another run would begin the next pass
        check_samples(found, drawn, " → ".join(ran))


def check_samples(found: Samples, drawn: Drawn, what: str) -> None:
    expected = +drawn.expected
    assert found == expected, f"{drawn.text}, {what}: lost {expected - found}, repeated {found - expected}"


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 300))])
@pytest.mark.sampled(3)
def test_each_sample_comes_as_often_as_computed(seed: int, sources: list[Source]) -> None:
    random = Random(seed)
    drawn, lanes = draw_pipeline(random, sources), random.choice((4, 6, 12))
    check(drawn, random, [Spread(ranks) for ranks in (1, 2, 3, 4, 6) if lanes % ranks == 0], lanes=lanes, resumes=2)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1000, 1020))])
def test_so_with_worker_processes(seed: int, sources: list[Source]) -> None:
    random = Random(seed)
    drawn = draw_pipeline(random, sources)
    check(drawn, random, [Spread(1, 2), Spread(2, 1), Spread(1, 3), Spread(1)], lanes=6, resumes=1)


class TwoPasses(drawing.HeldBack):
    """A user's dataset that iterates its input twice, and holds samples of the first pass in the second."""

    _savable_fields: ClassVar[tuple[str, ...]] = ("waiting", "passes")
    passes = 0

    def reset_state_own(self) -> None:
        super().reset_state_own()
        self.passes = 0

    def __iter__(self) -> Iterator[Any]:
        while self.passes < 2:
            for sample in self.dataset:
                self.waiting.append(sample)
                if len(self.waiting) > 3:
                    yield self.waiting.pop(0)
            self.passes += 1
        while self.waiting:
            yield self.waiting.pop(0)


def two_passes(dataset: SavableDataset[Any], _: int) -> SavableDataset[Any]:
    return TwoPasses(dataset, worker_config=dataset.worker_config)


def concatenated(sources: Sequence[Source]) -> Drawn:
    first, second = repacked_twice(sources[0]), drawing.source(sources[2].path, drawing.Bracketed, val=True)
    build = drawing.stage_above(drawing.concat_of([first.build, second]), drawing.shuffled, 4)
    return Drawn(build, first.expected + Counter(sources[2].numbers), "concatenated")


class Uneven(drawing.Bracketed):
    """Encoder that makes the samples of some lanes many more than those of others."""

    @stateless
    def encode_sample(self, sample: TextSample) -> Iterator[Any]:
        for _ in range(1 + number_in(sample) % 4):
            yield super().encode_sample(sample)


def iterated_twice(sources: Sequence[Source]) -> Drawn:
    encoded = drawing.source(sources[0].path, Uneven, val=True)
    build = drawing.stage_above(drawing.stage_above(encoded, drawing.repacked, 4), two_passes, 1)
    return Drawn(build, Counter({number: 2 + 2 * (number % 4) for number in sources[0].numbers}), "iterated twice")


def repacked_twice(one: Source) -> Drawn:
    build = drawing.stage_above(drawing.source(one.path, drawing.BracketedTwice, val=True), drawing.repacked, 4)
    return Drawn(build, Counter({number: number % 3 for number in one.numbers}), "repacked")


@pytest.mark.parametrize("draw", [concatenated, iterated_twice])
@pytest.mark.sampled(2)
def test_a_finished_pass_whose_items_are_rebuilt_is_not_read_again(
    draw: Callable[[Sequence[Source]], Drawn], sources: list[Source]
) -> None:
    # A restored lane opened the finished pass at its start, and a lane that ended took samples from it.
    drawn = draw(sources)
    pipeline = Pipeline(build=drawn.build, batches=None, known_ahead=False, lanes=4)
    for saved_at in (2, 3, 11, 15):
        with running(pipeline, Spread(4)) as run:
            for _ in range(saved_at):
                run.step()
            found, states = samples_in(run), through_json(run.states())
        with running(pipeline, Spread(), states) as run:
            check_samples(found + finished(run), drawn, f"saved at {saved_at}")


def test_a_lane_without_samples_in_one_pass_has_some_in_the_next_if_they_are_shuffled(sources: list[Source]) -> None:
    # A dataset for validation, concatenated with one for training, made a lane end at its first empty pass.
    parts = [
        drawing.source(sources[1].path, drawing.Bracketed, val=True),
        drawing.source(sources[0].path, drawing.BracketedSkips, val=False),
    ]
    batches = drawing.stage_above(drawing.concat_of(parts), drawing.batch_of, 8)
    drawn = Drawn(
        drawing.repeat_of(batches, 5),
        Counter({number: 5 for number in sources[0].numbers if number % 3 != 1})
        + Counter(dict.fromkeys(sources[1].numbers, 5)),
        "by hand",
    )
    with running(Pipeline(build=drawn.build, batches=None, known_ahead=False, lanes=12), Spread()) as run:
        check_samples(finished(run), drawn, "one rank")
