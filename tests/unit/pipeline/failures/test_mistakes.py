"""A mistake in a hook ends a run after ten samples; broken samples do not, and fill no log before one has passed."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest

from loader.errors import RepeatedSampleError, SampleError
from loader.pipeline.failures import error_handlers
from loader.pipeline.failures.policy import FailurePolicy, WorkerFailures
from loader.samples import CaptioningSample, CrudeSample
from loader.samples.hook_marks import stateless

Fails = Callable[[Any], Any]


def captioning(number: int) -> CaptioningSample:
    return CaptioningSample(__key__=f"a.tar/{number}", image=None, caption="a cat")  # type: ignore[arg-type]


def crude(number: int) -> CrudeSample:
    return CrudeSample({"__key__": f"a.tar/{number}", "txt": "a cat", "json": {"label": 3}})


def policy_of() -> FailurePolicy:
    return FailurePolicy(error_handlers.log_exception, lane=0, worker=WorkerFailures(is_new=True))


def failures_of(
    hook: Fails,
    samples: list[Any],
    *,
    policy: FailurePolicy | None = None,
    tolerance: int | None = None,
) -> int:
    """Call a hook for samples as a stage does; return how many have failed when the run ends, or all."""
    policy = policy or policy_of()
    failed = 0
    for sample in samples:
        try:
            hook(sample)
        except Exception as error:  # noqa: BLE001 - as a stage does
            failed += 1
            policy.failed(hook, error, sample, tolerance=tolerance)
        else:
            policy.succeeded(hook)
    return failed


def error_of(hook: Fails, samples: list[Any], **options: Any) -> RepeatedSampleError:
    with pytest.raises(RepeatedSampleError) as caught:
        failures_of(hook, samples, **options)
    return caught.value


def misspelt_attribute(sample: Any) -> Any:
    return sample.captoin


def misspelt_key(sample: Any) -> Any:
    return sample["tXt"]


def misspelt_inner_key(sample: Any) -> Any:
    return sample["json"]["labl"]


def wrong_type(sample: Any) -> Any:
    return sample.caption + 1


def no_parameter() -> None:
    """Accept no sample."""


# ---------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("hook", "make", "texts"),
    [
        (
            misspelt_attribute,
            captioning,
            (
                "'captoin'; did you mean 'caption'?",
                "the argument is CaptioningSample(__key__='a.tar/9', image=None, caption='a cat')",
            ),
        ),
        (
            misspelt_key,
            crude,
            (
                "'tXt'; did you mean 'txt'?",
                "the argument is CrudeSample({'__key__': 'a.tar/9', 'txt': 'a cat', 'json': {'label': 3}})",
            ),
        ),
        (misspelt_inner_key, crude, ("KeyError: 'labl'; did you mean 'label'?", "'json': {'label': 3}")),
        (
            misspelt_key,
            captioning,
            ("; its fields are attributes, such as sample.image, and energon prepare --sample-type CrudeWebdataset",),
        ),
        (wrong_type, captioning, ("TypeError: can only concatenate str", "image=None, caption='a cat'")),
    ],
)
def test_ten_samples_that_fail_alike_end_the_run_with_the_line_the_sample_and_a_guess(
    hook: Fails, make: Callable[[int], Any], texts: tuple[str, ...]
) -> None:
    samples = [make(number) for number in range(30)]
    error = error_of(hook, samples)
    line = hook.__code__.co_firstlineno + 1
    assert error.at == f"{__file__}:{line}, in {hook.__name__}, for sample 'a.tar/9'"
    assert error.key == "a.tar/9"
    assert "if the hook expects bare keys, set ENERGON_KEY_FORMAT=key" in str(error.hint)
    for text in texts:
        assert text in str(error)


def test_a_hook_that_does_not_accept_a_sample_is_a_mistake_at_its_definition() -> None:
    from loader.pipeline.contract.hook import Hook
    from loader.pipeline.contract.lane import Lane

    lane = Lane(0, 1, seed=0, failures=policy_of())
    hook = Hook(no_parameter, lane)
    for number in range(9):
        hook.attempt(captioning(number), number)
    with pytest.raises(RepeatedSampleError, match="takes 0 positional arguments but 1 was given") as caught:
        hook.attempt(captioning(9), 9)
    assert str(caught.value.at).startswith(f"{__file__}:{no_parameter.__code__.co_firstlineno}, in no_parameter")


def test_a_batch_hook_ends_after_ten_batches_and_its_samples_are_described() -> None:
    batches = [[captioning(number), captioning(number + 100)] for number in range(12)]
    error = error_of(lambda samples: samples.image, batches)
    assert "for each of its first 10 calls" in str(error)
    assert "the argument is a list of 2, which begins with CaptioningSample(__key__=" in str(error)


# ------------------------------------------------------------------------------------------- what is no mistake


def raise_here(error: Exception) -> Fails:
    def hook(sample: Any) -> Any:
        raise error

    return hook


def by_turns(sample: Any) -> Any:
    if sample.__key__.endswith("4"):
        return sample.captoin
    return sample.lable


MANY = [captioning(number) for number in range(60)]


@pytest.mark.parametrize(
    ("hook", "samples"),
    [
        pytest.param(raise_here(ValueError()), MANY, id="an error of values"),
        pytest.param(raise_here(SampleError("x")), MANY, id="an error of reading"),
        pytest.param(functools.partial(json.loads), MANY, id="an error raised in a library"),
        pytest.param(by_turns, MANY, id="errors of two lines"),
        pytest.param(misspelt_attribute, MANY[:9] * 6, id="nine samples that come again"),
        pytest.param(misspelt_attribute, [object() for _ in MANY], id="samples without keys"),
    ],
)
def test_other_failures_end_a_run_no_sooner_than_the_tolerance(hook: Fails, samples: list[Any]) -> None:
    assert failures_of(hook, samples) == len(samples)


def test_samples_that_fail_after_one_has_passed_in_another_lane_of_the_worker_end_nothing() -> None:
    worker = WorkerFailures(is_new=True)
    one, other = (FailurePolicy(error_handlers.log_exception, lane=lane, worker=worker) for lane in range(2))
    one.succeeded(misspelt_attribute)
    assert failures_of(misspelt_attribute, MANY, policy=other) == len(MANY)


def test_a_resumed_run_ends_no_sooner() -> None:
    policy = FailurePolicy(error_handlers.log_exception, lane=0)
    assert failures_of(misspelt_attribute, MANY, policy=policy) == len(MANY)


def test_a_tolerance_of_0_allows_mistakes() -> None:
    assert failures_of(misspelt_attribute, MANY, tolerance=0) == len(MANY)
    marked = stateless(failure_tolerance=0)(lambda sample: sample.captoin)
    assert failures_of(marked, MANY) == len(MANY)


def test_decoding_has_no_mistakes() -> None:
    handled: list[Exception] = []
    policy = FailurePolicy(
        lambda error, _sample, _sources: handled.append(error), lane=0, worker=WorkerFailures(is_new=True)
    )
    for sample in MANY:
        try:
            misspelt_attribute(sample)
        except AttributeError as error:
            policy.failed("decode", error, sample)
    assert len(handled) == len(MANY)


# ----------------------------------------------------------------------------------------------------- the log


def fails_until(number: int) -> Fails:
    def hook(sample: Any) -> Any:
        if int(sample.__key__.rpartition("/")[2]) < number:
            raise ValueError(sample.__key__)

    return hook


def test_until_a_sample_passes_failures_of_one_cause_are_one_line_and_then_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures_of(fails_until(40), MANY[:40])
    assert len(caplog.records) == 1
    caplog.clear()
    failures_of(fails_until(40), MANY)
    [last] = caplog.records
    assert last.getMessage().startswith("skipped sample 'a.tar/39': hook raised ValueError")
    assert last.getMessage().endswith("80 times so far")


def test_a_lane_that_ends_before_a_sample_passes_logs_the_number(caplog: pytest.LogCaptureFixture) -> None:
    policy = policy_of()
    failures_of(fails_until(40), MANY[:40], policy=policy)
    policy.end()
    assert [record.getMessage().rpartition("· ")[2] for record in caplog.records][-1] == "40 times so far"


def test_a_hook_that_may_fail_for_ever_is_logged_at_each_hundredth_failure(caplog: pytest.LogCaptureFixture) -> None:
    failures_of(fails_until(10_000), [captioning(number) for number in range(250)], tolerance=0)
    assert [record.getMessage().rpartition("· ")[2] for record in caplog.records][1:] == [
        "100 times so far",
        "200 times so far",
    ]
