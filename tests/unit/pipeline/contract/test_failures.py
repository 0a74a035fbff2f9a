"""Failures that skip a sample, and failures that end the run."""

from __future__ import annotations

import functools
import pickle
import traceback
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from loader.errors import ConfigError, FatalSampleError, SampleError, TrustError
from loader.pipeline.failures.policy import FailurePolicy, WorkerFailures
from loader.samples.hook_marks import stateless
from loader.samples.source_info import SourceInfo

SAMPLE = {"__key__": "a.tar/0001", "txt": b"caption"}


class PackedTexts:
    """A packed sample."""

    def __init__(self, keys: Any) -> None:
        self.__key__ = keys


class NamedTexts(NamedTuple):
    """A named tuple, which is a sample rather than a list of samples."""

    first: str
    second: str


def skip_silently(error: Any, sample: Any, sources: Any) -> None:
    """Skip every failed sample without a message."""


def encode(sample: Any, size: int = 0) -> None:
    """A hook."""


def other_hook(sample: Any) -> None:
    """Another."""


def made_policy(**arguments: Any) -> Any:
    return FailurePolicy(skip_silently, lane=5, **arguments)


def fail(policy: Any, hook: Any = encode, times: int = 1, datasets: Iterable[str] = ()) -> None:
    for number in range(times):
        policy.failed(hook, ValueError(f"number {number}"), SAMPLE, datasets=datasets)


def succeed(policy: Any, hook: Any = encode, times: int = 1, datasets: Iterable[str] = ()) -> None:
    """As the pipeline does."""
    for _ in range(times):
        if policy.pending:
            policy.succeeded(hook, datasets)


@pytest.mark.parametrize(("samples", "expected"), [(10, 20_000), (10_000, 200_000), (10**9, 10**6)])
def test_the_default_skip_tolerance_grows_with_the_data_up_to_a_million(samples: int, expected: int) -> None:
    assert FailurePolicy(skip_silently, lane=0, samples=samples).skip_tolerance == expected
    assert FailurePolicy(skip_silently, lane=0, samples=samples, skip_tolerance=7).skip_tolerance == 7


def test_the_handler_gets_error_sample_and_sources() -> None:
    received = []
    policy = FailurePolicy(lambda *arguments: received.append(arguments), lane=0)
    error, sources = ValueError("x"), (SourceInfo(dataset_path="/ds", index=1, shard_name="a.tar", file_names=()),)
    policy.failed(encode, error, SAMPLE, sources=sources)
    assert received == [(error, SAMPLE, sources)]


@pytest.mark.parametrize(
    "error",
    [
        FatalSampleError("stop"),
        NameError("nmae"),
        UnboundLocalError("x"),
        ModuleNotFoundError("no cv2"),
        SyntaxError("eval"),
        TrustError("pickles"),
        ConfigError("no cooker"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_fault_of_the_program_ends_the_run_and_names_hook_and_sample(error: Any) -> None:
    received = []
    policy = FailurePolicy(lambda *arguments: received.append(arguments), lane=0, tolerance=0)
    succeed(policy, times=2000)
    with pytest.raises(type(error)) as caught:
        policy.failed(encode, error, SAMPLE)
    assert (str(caught.value), type(caught.value).__name__) == (str(error), type(error).__name__)
    assert caught.value.__notes__ == ["raised by encode for sample 'a.tar/0001'"]
    assert not received


@pytest.mark.parametrize(
    "code", ["import no_such_module_of_anyone", "misspelt_name", "eval('1 +')"], ids=("import", "name", "syntax")
)
def test_a_fault_of_code_is_an_error_of_both_kinds_also_from_a_worker(code: str) -> None:
    with pytest.raises((ImportError, NameError, SyntaxError)) as fault:
        exec(code)
    cause = fault.value
    with pytest.raises(FatalSampleError) as caught:
        made_policy().failed(encode, cause, SAMPLE)
    for copy in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert isinstance(copy, type(cause))
        assert (str(copy), copy.args, type(copy).__name__) == (str(cause), cause.args, type(cause).__name__)
        assert getattr(copy, "path", None) == getattr(cause, "path", None)
        assert copy.__notes__ == ["raised by encode for sample 'a.tar/0001'"]
    lines = traceback.format_exception(caught.value)
    assert lines[0].startswith("Traceback")
    assert sum(line.startswith("Traceback") for line in lines) == 1
    assert "exec(code)" in "".join(lines)


def test_a_hook_that_is_not_implemented_for_some_samples_skips_them() -> None:
    policy = made_policy()
    policy.failed(encode, NotImplementedError("no such sample type"), SAMPLE)
    assert policy.dropped.total() == 1


def test_the_handler_of_restored_samples_gets_the_sample_of_the_noted_failure() -> None:
    received: list[Any] = []
    policy = made_policy(restore_handler=lambda *arguments: received.append(arguments), tolerance=1)
    source = SourceInfo(dataset_path="/ds", index=1, shard_name="a.tar", file_names=())
    sample, error, other = {**SAMPLE, "__sources__": (source,)}, ValueError("x"), ValueError("y")
    policy.note_rebuilt(error, encode, sample)
    policy.failed_to_rebuild(error)
    policy.failed_to_rebuild(other)
    assert received == [(error, sample, [source]), (other, None, None)]
    assert not policy.pending


@pytest.mark.parametrize("error", [NameError("nmae"), FatalSampleError("stop"), ConfigError("no cooker")])
def test_a_fault_of_the_program_ends_a_restored_run(error: Any) -> None:
    policy = made_policy(restore_handler=skip_silently)
    policy.note_rebuilt(error, encode, SAMPLE)
    with pytest.raises(type(error)):
        policy.failed_to_rebuild(error)
    assert error.__notes__ == ["raised by encode for sample 'a.tar/0001'"]


def test_failures_of_the_first_calls_count_as_others_do() -> None:
    policy = made_policy()
    fail(policy, times=99)
    cause = ValueError("bad\ncaption")
    with pytest.raises(SampleError) as caught:
        policy.failed(encode, cause, SAMPLE)
    assert isinstance(caught.value, FatalSampleError)
    assert caught.value.__cause__ is cause
    assert caught.value.key == "a.tar/0001"
    assert caught.value.message == (
        "encode failed 100 times in a row in lane 5, the last time for sample 'a.tar/0001': ValueError: bad caption"
    )


def test_a_hundred_failures_in_a_row_stop_the_run() -> None:
    policy = made_policy()
    succeed(policy)
    fail(policy, times=99)
    succeed(policy)
    fail(policy, times=99)
    with pytest.raises(SampleError, match="encode failed 100 times in a row in lane 5") as caught:
        fail(policy)
    assert isinstance(caught.value.__cause__, ValueError)


def test_failures_are_counted_for_each_hook() -> None:
    policy = made_policy(tolerance=20)
    succeed(policy, encode)
    for _ in range(9):
        fail(policy, other_hook)
        succeed(policy, encode)
    fail(policy, other_hook, times=10)
    with pytest.raises(SampleError, match="other_hook failed 20 times in a row"):
        fail(policy, other_hook)
    fail(policy, encode, times=19)
    with pytest.raises(SampleError, match="encode failed 20 times in a row"):
        fail(policy, encode)


def test_a_bound_method_is_the_same_hook_at_each_access() -> None:
    class Encoder:
        def encode_sample(self, sample: Any) -> None: ...

    one, other = Encoder(), Encoder()
    policy = made_policy(tolerance=10)
    for _ in range(9):
        fail(policy, one.encode_sample)
        fail(policy, other.encode_sample)
    with pytest.raises(SampleError, match="encode_sample failed 10 times"):
        fail(policy, one.encode_sample)


class Unhashable:
    """A callable without a hash, such as a dataclass."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return True

    def __call__(self, sample: Any) -> None: ...


def test_unhashable_hooks_are_compared_by_identity() -> None:
    one, other = Unhashable(), Unhashable()
    policy = made_policy(tolerance=10)
    fail(policy, one, times=9)
    succeed(policy, other)
    with pytest.raises(SampleError, match="Unhashable failed 10 times in a row"):
        fail(policy, one)


@pytest.mark.parametrize("hook", ["decode", functools.partial(encode, size=3), lambda sample: sample])
def test_a_hook_is_named_in_the_error(hook: Any) -> None:
    policy = made_policy(tolerance=1)
    with pytest.raises(SampleError, match=r"^(decode|encode|<lambda>) failed 1 time in a row"):
        fail(policy, hook)


@stateless(failure_tolerance=3)
def hook_of_little_patience(sample: Any) -> None: ...


@stateless(failure_tolerance=0)
def hook_of_any_patience(sample: Any) -> None: ...


def test_a_hook_may_have_another_tolerance() -> None:
    policy = made_policy()
    fail(policy, hook_of_little_patience, times=2)
    with pytest.raises(SampleError, match="3 times in a row"):
        fail(policy, hook_of_little_patience)
    fail(policy, hook_of_any_patience, times=1000)


@pytest.mark.parametrize("tolerance", [0, None])
def test_without_a_tolerance_as_many_failures_stop_the_run_as_skips(tolerance: Any) -> None:
    fail(made_policy(tolerance=tolerance), times=1000)
    policy = FailurePolicy(lambda *_: None, lane=0, tolerance=tolerance, skip_tolerance=1500)
    fail(policy, times=1499)
    with pytest.raises(SampleError, match="failed 1,500 times in a row"):
        fail(policy)
    fail(FailurePolicy(lambda *_: None, lane=0, tolerance=tolerance, skip_tolerance=None), times=2000)


class Patient:
    """An encoder with a tolerance for its hooks."""

    __default_failure_tolerance__ = 5

    def encode_sample(self, sample: Any) -> None: ...

    @stateless(failure_tolerance=20)
    def batch(self, samples: Any) -> None: ...


def test_the_tolerance_of_an_encoder_is_that_of_its_hooks_without_one() -> None:
    policy = made_policy()
    encoder = Patient()
    fail(policy, encoder.encode_sample, times=4)
    with pytest.raises(SampleError, match="encode_sample failed 5 times"):
        fail(policy, encoder.encode_sample)
    fail(policy, encoder.batch, times=19)
    with pytest.raises(SampleError, match="batch failed 20 times"):
        fail(policy, encoder.batch)


def test_handlers_receive_the_sources_of_samples() -> None:
    received: list[Any] = []
    policy = FailurePolicy(lambda *arguments: received.append(arguments[2]), lane=0)
    one, other = (SourceInfo("/ds", number, "a.tar", ("x.txt",)) for number in range(2))
    policy.failed(encode, ValueError(), {"__sources__": (one,)})
    policy.failed(encode, ValueError(), [{"__sources__": (one,)}, {"__sources__": (other,)}])
    policy.failed(encode, ValueError(), ["a caption"])
    assert received == [[one], [one, other], None]


def test_successes_are_reported_after_failures() -> None:
    policy = made_policy()
    assert not policy.pending
    fail(policy, times=2)
    assert policy.pending
    succeed(policy)
    assert not policy.pending


def test_another_hooks_success_does_not_end_a_row() -> None:
    policy = made_policy(tolerance=3)
    succeed(policy, times=2000)
    fail(policy, times=2)
    succeed(policy, other_hook)
    assert policy.pending
    with pytest.raises(SampleError, match="3 times in a row"):
        fail(policy)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40) | st.integers(1, 1500)), max_size=12), st.integers(1, 120))
def test_a_run_stops_at_the_tolerance_and_at_no_other_call(runs: Any, tolerance: Any) -> None:
    """End the run at the first call that completes ``tolerance`` consecutive failures."""
    policy = made_policy(tolerance=tolerance)
    row = 0
    for succeeds, length in runs:
        for _ in range(length):
            row = 0 if succeeds else row + 1
            if succeeds:
                succeed(policy)
            elif row == tolerance:
                with pytest.raises(SampleError):
                    fail(policy)
                return
            else:
                fail(policy)


@given(
    st.lists(st.tuples(st.integers(0, 1), st.sets(st.sampled_from("abc"), min_size=1), st.booleans()), max_size=60),
    st.integers(1, 5),
)
def test_failures_of_a_dataset_are_counted_over_the_lanes_of_a_worker(calls: Any, tolerance: int) -> None:
    """End the run at the first call that completes a row of failures of a lane, or of a dataset of its samples."""
    worker = WorkerFailures()
    lanes = [FailurePolicy(skip_silently, lane=lane, tolerance=tolerance, worker=worker) for lane in range(2)]
    rows: dict[Any, int] = {}
    for lane, datasets, succeeds in calls:
        for row in (lane, *datasets):
            rows[row] = 0 if succeeds else rows.get(row, 0) + 1
        if succeeds:
            succeed(lanes[lane], datasets=datasets)
        elif max(rows.values()) == tolerance:
            names = [
                f"in lane {row}" if row == lane else f"for samples of {row}" for row in rows if rows[row] == tolerance
            ]
            with pytest.raises(SampleError, match="|".join(names)):
                fail(lanes[lane], datasets=datasets)
            return
        else:
            fail(lanes[lane], datasets=datasets)
    assert bool(worker.in_a_row) == any(rows.values())


def test_an_error_of_the_handler_ends_the_run() -> None:
    def handler(error: Any, sample: Any, sources: Any) -> None:
        raise KeyError("of the handler") from error

    with pytest.raises(KeyError, match="of the handler"):
        fail(FailurePolicy(handler, lane=0))


def test_a_negative_tolerance_is_refused() -> None:
    with pytest.raises(ConfigError, match="found -1"):
        made_policy(tolerance=-1)
    policy = made_policy()
    with pytest.raises(ConfigError, match="found -7"):
        fail(policy, stateless(failure_tolerance=-7)(lambda sample: sample))


@pytest.mark.parametrize(
    ("sample", "named"),
    [
        (SAMPLE, "sample 'a.tar/0001'"),
        ([{"__key__": f"a.tar/{number}"} for number in range(5)], "samples a.tar/0, a.tar/1, a.tar/2 and 2 more"),
        (PackedTexts(["a.tar/1", "a.tar/2"]), "samples a.tar/1, a.tar/2"),
        (b"bytes", "a sample without a key"),
        (NamedTexts("one", "two"), "a sample without a key"),
        ([], "a sample without a key"),
    ],
)
def test_the_error_names_the_sample_or_the_first_of_a_batch(sample: Any, named: Any) -> None:
    with pytest.raises(SampleError, match=f"the last time for {named}: ValueError"):
        made_policy(tolerance=1).failed(encode, ValueError("x"), sample)
