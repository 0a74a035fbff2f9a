"""Hooks that fail or skip samples, error handlers, and tolerances."""

from __future__ import annotations

import itertools
import logging

from facts import Facts
from megatron.energon import (
    DefaultTaskEncoder,
    MapDataset,
    SkipSample,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    stateless,
)
from megatron.energon.errors import FatalSampleError, SampleException

DIFFERS = {
    "program_error": "stop the run as what they are, and as `FatalSampleError`",
    "every_sample_skipped": "the run stops with an error",
    "selection_that_fails_once": (
        "A failing `select_samples_to_pack` is called again for halves of the buffer, and the handler gets the samples "
        "for which it fails alone"
    ),
}

facts = Facts()
logging.disable(logging.CRITICAL)


class Calls:
    """An error handler that records its arguments."""

    def __init__(self):
        self.arguments = []

    def __call__(self, error, sample, sources):
        self.arguments.append((error, sample, sources))


def run(encoder, handler, *, batches=3, val=False, packing=None, wrap=None):
    """Return the number of batches, or the error's bases among those that scripts catch; and the handler's calls."""
    options = {
        "batch_size": 2,
        "packing_buffer_size": packing,
        "task_encoder": encoder,
        "worker_config": WorkerConfig(
            rank=0, world_size=1, num_workers=0, global_error_handler=handler, restore_error_handler=handler
        ),
    }
    if not val:
        options |= {"shuffle_buffer_size": None, "max_samples_per_sequence": None}
    dataset = (get_val_dataset if val else get_train_dataset)(facts.folder / "texts", **options)
    if wrap is not None:
        dataset = wrap(dataset)
    try:
        result = len(list(itertools.islice(get_loader(dataset), batches)))
    except (FatalSampleError, SampleException) as error:
        result = [isinstance(error, kind) for kind in (FatalSampleError, ValueError, NameError)]
    return [result, len(handler.arguments)]


class Encoder(DefaultTaskEncoder):
    def batch(self, samples):
        return [sample.text for sample in samples]

    def select_samples_to_pack(self, samples):
        return [samples]

    def pack_selected_samples(self, samples):
        return samples[0]


def failing(hook, times, *, error=ValueError, mark=None, **attributes):
    """Return an encoder whose hook fails for its first calls."""
    calls = itertools.count()

    def function(self, value):
        if next(calls) < times:
            raise error("broken")
        return {"select_samples_to_pack": lambda: [value], "pack_selected_samples": lambda: value[0]}.get(
            hook, lambda: value
        )()

    function.__name__ = hook
    return type("Failing", (Encoder,), {hook: mark(function) if mark else function, **attributes})()


for name, times in (("encode_sample", 10), ("encode_sample", 99), ("encode_sample", 100), ("batch", 10)):

    def first_calls(name=name, times=times):
        return run(failing(name, times), Calls())

    first_calls.__name__ = f"{name}_fails_first_{times}"
    facts.add(first_calls)


@facts.add
def always_fails():
    return run(failing("encode_sample", 10**9), Calls())


@facts.add
def always_fails_in_validation():
    return run(failing("encode_sample", 10**9), Calls(), val=True)[0]


@facts.add
def default_tolerance_of_encoder():
    return run(failing("encode_sample", 10, __default_failure_tolerance__=5), Calls())


@facts.add
def default_tolerance_of_batch():
    return run(failing("batch", 10, __default_failure_tolerance__=5), Calls())


@facts.add
def no_tolerance_limit():
    return run(failing("encode_sample", 300, __default_failure_tolerance__=0), Calls())


@facts.add
def tolerance_of_hook():
    mark = stateless(failure_tolerance=20)
    return run(failing("encode_sample", 15, mark=mark, __default_failure_tolerance__=5), Calls())


@facts.add
def tolerance_of_hook_exceeded():
    return run(failing("encode_sample", 15, mark=stateless(failure_tolerance=3)), Calls())


@facts.add
def tolerance_of_stage():
    handler = Calls()

    def fails(batch):
        raise ValueError("broken")

    def wrap(dataset):
        return MapDataset(dataset, fails, failure_tolerance=4, worker_config=dataset.worker_config)

    return run(failing("encode_sample", 0), handler, wrap=wrap)


@facts.add
def fatal_error():
    return run(failing("encode_sample", 1, error=FatalSampleError), Calls())


@facts.add
def sample_exception():
    return run(failing("encode_sample", 1, error=SampleException), Calls())


@facts.add
def program_error():
    return run(failing("encode_sample", 1, error=NameError), Calls())


def described(sources):
    if sources is None:
        return None
    return [[type(source).__name__, type(source.index).__name__, len(source.file_names)] for source in sources]


@facts.add
def arguments_of_handler():
    found = {}
    for hook, packing in (
        ("encode_sample", None),
        ("batch", None),
        ("encode_batch", None),
        ("pack_selected_samples", 4),
    ):
        handler = Calls()
        run(failing(hook, 1), handler, packing=packing)
        error, sample, sources = handler.arguments[0]
        found[hook] = [type(error).__name__, type(sample).__name__, described(sources)]
    return found


@facts.add
def selection_that_fails_once():
    return run(failing("select_samples_to_pack", 1), Calls(), packing=4)


@facts.add
def a_third_parameter_of_any_name_gets_the_sources():
    received = []

    def handler(error, failed, where=None):
        received.append([type(error).__name__, type(failed).__name__, described(where)])

    handler.arguments = received
    run(failing("encode_sample", 1), handler)
    return received


class FailsBeforeYielding(Encoder):
    def encode_sample(self, sample):
        raise ValueError("broken")
        yield sample


@facts.add
def generators_that_always_fail():
    return run(FailsBeforeYielding(), Calls())


@facts.add
def skipped_samples_reach_no_handler():
    handler = Calls()
    return run(failing("encode_sample", 50, error=SkipSample), handler)


@facts.add
def every_sample_skipped():
    return run(failing("encode_sample", 10**9, error=SkipSample), Calls(), val=True)[0]


if __name__ == "__main__":
    facts.report()
