"""Samples that fail when a restored run rebuilds them, and errors that stop a run."""

from __future__ import annotations

import builtins
import itertools
import logging

from facts import Facts
from megatron.energon import (
    DefaultTaskEncoder,
    SkipSample,
    TextSample,
    WorkerConfig,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    stateless,
)
from megatron.energon.errors import FatalSampleError

DIFFERS = {
    "skipped_while_restoring": (
        "A sample that a hook skips while a state is restored is skipped here; there, the handler is called."
    ),
    "faults_of_the_machine_in_hooks": (
        "`MemoryError`, `RecursionError`, `SystemError`, `StopIteration` and `StopAsyncIteration` in a hook skip the "
        "sample"
    ),
}

facts = Facts()
logging.disable(logging.CRITICAL)


class Packs(DefaultTaskEncoder):
    """Packs pairs of texts; the hook below the buffer raises the given errors, one a call."""

    def __init__(self):
        super().__init__()
        self.errors = []

    def raise_next(self):
        if self.errors:
            raise self.errors.pop()

    def select_samples_to_pack(self, samples):
        return [samples[:2], samples[2:4], samples[4:]]

    @stateless
    def pack_selected_samples(self, samples):
        return TextSample.derive_from(samples[0], text="+".join(sample.text for sample in samples))

    def batch(self, samples):
        return [sample.text for sample in samples]


class Encode(Packs):
    @stateless
    def encode_sample(self, sample):
        self.raise_next()
        return sample


class Post(Packs):
    @stateless
    def postencode_sample(self, sample):
        self.raise_next()
        return sample


class Calls:
    """An error handler that records its arguments."""

    def __init__(self):
        self.arguments = []

    def __call__(self, error, sample, sources):
        self.arguments.append((error, sample, sources))


def build(encoder, restoring, path="texts", **options):
    config = WorkerConfig(
        rank=0, world_size=1, num_workers=0, global_error_handler=Calls(), restore_error_handler=restoring
    )
    return get_train_dataset(
        facts.folder / path,
        **{"batch_size": 1} | options,
        shuffle_buffer_size=None,
        max_samples_per_sequence=None,
        task_encoder=encoder,
        worker_config=config,
    )


def restore(encoder, *errors):
    """Restore a run in which hooks raise errors; return what happens, and the arguments of the handler."""
    first = get_savable_loader(build(encoder(), Calls(), packing_buffer_size=6))
    batches = iter(first)
    for _ in range(4):
        next(batches)
    failing, handler = encoder(), Calls()
    restored = get_savable_loader(build(failing, handler, packing_buffer_size=6))
    restored.restore_state_rank(first.save_state_rank())
    failing.errors = list(errors)
    try:
        found = len(list(itertools.islice(restored, 4)))
    except (FatalSampleError, NameError):
        found = "stops"
    return found, [
        [type(error).__name__, type(sample).__name__, [type(source).__name__ for source in sources or ()]]
        for error, sample, sources in handler.arguments
    ]


@facts.add
def arguments_of_the_handler():
    return restore(Encode, ValueError("broken"))


@facts.add
def several_failures():
    return restore(Encode, ValueError("broken"), ValueError("broken"))


@facts.add
def encoding_after_the_buffer():
    return restore(Post, ValueError("broken"))


@facts.add
def fatal_errors_while_restoring():
    return [restore(Encode, error) for error in (FatalSampleError("stop"), NameError("x"))]


@facts.add
def skipped_while_restoring():
    return restore(Encode, SkipSample())


def raised_once(name):
    encoder = Encode()
    encoder.errors = [getattr(builtins, name)("x")]
    try:
        return len(list(itertools.islice(get_loader(build(encoder, Calls(), batch_size=2)), 3)))
    except (FatalSampleError, NameError, ImportError, SyntaxError):
        return "stops"


@facts.add
def errors_in_hooks():
    names = """
        NotImplementedError NameError UnboundLocalError ImportError ModuleNotFoundError SyntaxError AttributeError
        TypeError AssertionError OSError FileNotFoundError RuntimeError LookupError EOFError ConnectionError
        TimeoutError ZeroDivisionError UserWarning
    """
    return {name: raised_once(name) for name in names.split()}


@facts.add
def faults_of_the_machine_in_hooks():
    names = "MemoryError RecursionError SystemError StopIteration StopAsyncIteration"
    return {name: raised_once(name) for name in names.split()}


facts.report()
