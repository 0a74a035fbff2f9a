"""Messages of the built-in error handlers, and the signatures that handlers may have."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from loader.errors import ConfigError, SampleError
from loader.pipeline.failures.error_handlers import log_exception, reraise_exception
from loader.pipeline.failures.policy import FailurePolicy, three_argument_handler
from loader.samples import SourceInfo, TextSample

SOURCES = (SourceInfo(dataset_path="/ds", index=7, shard_name="a.tar", file_names=("0001.jpg", "0001.txt")),)
SAMPLE = TextSample(__key__="a.tar/0001", __restore_key__=(), __sources__=SOURCES, text="caption")


def fail_with(
    error: Exception,
    *,
    handler: Callable[..., Any] = log_exception,
    sample: Any = SAMPLE,
    times: int = 1,
    hook: str = "encode_sample",
) -> None:
    policy = FailurePolicy(handler, lane=3)
    policy.succeeded(hook)
    for _ in range(times):
        try:
            raise error
        except type(error) as caught:
            policy.failed(hook, caught, sample)


def test_a_log_line_names_hook_sample_error_code_file_lane_and_worker(caplog: pytest.LogCaptureFixture) -> None:
    fail_with(ValueError("no caption"))
    (record,) = caplog.records
    line = record.getMessage()
    assert line.startswith("skipped sample 'a.tar/0001': encode_sample raised ValueError: no caption · at ")
    assert f"at {__file__}:" in line
    assert line.endswith("· in /ds/a.tar: 0001.jpg, 0001.txt · lane 3")
    assert record.levelname == "WARNING"


def test_the_traceback_is_logged_once_for_a_cause_then_its_count(caplog: pytest.LogCaptureFixture) -> None:
    fail_with(ValueError("first"), times=3)
    first, second, third = caplog.records
    assert "Traceback" in caplog.text
    assert [record.exc_info is None for record in caplog.records] == [False, True, True]
    assert "so far" not in first.getMessage()
    assert second.getMessage().endswith("· 2 times so far")
    assert third.getMessage().endswith("· 3 times so far")


def test_after_five_lines_of_a_cause_each_hundredth_failure_is_one(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        fail_with(ValueError("first"), times=80)  # a hundred in a row would end the run
    numbers = [record.getMessage().rpartition(" · ")[2] for record in caplog.records[1:]]
    assert numbers == [f"{number} times so far" for number in (2, 3, 4, 5, 100, 200)]


def raise_one_of_two(number: int) -> None:
    if number == 1:
        raise ValueError("here")
    raise ValueError("here")


def test_another_line_or_another_type_is_another_cause(caplog: pytest.LogCaptureFixture) -> None:
    for raised in (
        functools.partial(raise_one_of_two, 1),
        functools.partial(raise_one_of_two, 2),
        functools.partial(int, "x"),
        functools.partial(dict.__getitem__, {}, "x"),
    ):
        try:
            raised()
        except (ValueError, KeyError) as error:
            log_exception(error, SAMPLE)
    assert [record.exc_info is None for record in caplog.records] == [False] * 4


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("two\n  lines\t"), "raised ValueError: two lines ·"),
        (KeyError("txt"), "raised KeyError: 'txt' ·"),
        (TimeoutError(), "raised TimeoutError ·"),
        (
            SampleError("part 'jpg' is damaged", source="a.tar", hint="fix it"),
            "SampleError: part 'jpg' is damaged ·",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_error_takes_one_line(caplog: pytest.LogCaptureFixture, error: Exception, shown: str) -> None:
    fail_with(error)
    line = caplog.records[0].getMessage()
    assert shown in line
    assert "\n" not in line


def test_the_text_of_an_error_is_not_longer_than_a_line(caplog: pytest.LogCaptureFixture) -> None:
    fail_with(ValueError("x-://" * 200_000))  # to search it for secrets takes linear time
    assert len(caplog.records[0].getMessage()) < 700


def test_a_batch_is_named_by_its_first_keys(caplog: pytest.LogCaptureFixture) -> None:
    fail_with(ValueError("batch"), sample=[{"__key__": f"k{number}"} for number in range(9)], hook="batch")
    assert caplog.records[0].getMessage().startswith("skipped samples k0, k1, k2 and 6 more:")


def test_a_users_handler_that_calls_the_logging_one_keeps_hook_and_lane(caplog: pytest.LogCaptureFixture) -> None:
    seen = []

    def handler(error: Exception, sample: TextSample, sources: Any) -> None:
        seen.append(error)
        log_exception(error, sample, sources)

    fail_with(ValueError("mine"), handler=handler)
    assert len(seen) == 1
    assert "encode_sample raised ValueError: mine" in caplog.text
    assert "lane 3" in caplog.text


def test_called_by_hand_it_logs_the_sample_and_its_sources(caplog: pytest.LogCaptureFixture) -> None:
    log_exception(ValueError("by hand"), SAMPLE)
    assert caplog.records[0].getMessage() == (
        "skipped sample 'a.tar/0001': a hook raised ValueError: by hand · in /ds/a.tar: 0001.jpg, 0001.txt"
    )


# ---------------------------------------------------------------------------------------------- raising again


def test_the_same_error_is_raised_again_with_a_note_of_hook_and_sample() -> None:
    error = ValueError("no caption")
    for _ in range(2):
        with pytest.raises(ValueError, match="no caption") as caught:
            fail_with(error, handler=reraise_exception)
        assert caught.value is error
    printed = "".join(traceback.format_exception(error))
    note = "raised by encode_sample for sample 'a.tar/0001'\n  at: /ds/a.tar: 0001.jpg, 0001.txt\n"
    assert printed.count(note) == 1


def test_stop_iteration_is_raised_as_a_sample_error() -> None:
    error = StopIteration()
    with pytest.raises(SampleError, match=r"encode_sample raised StopIteration, .*sample 'a.tar/0001'") as caught:
        fail_with(error, handler=reraise_exception)
    assert caught.value.__cause__ is error


# --------------------------------------------------------------------------------- what may be a handler


class Handler:
    def __init__(self) -> None:
        self.received: tuple[Any, ...] | None = None

    def of_three(self, error: Exception, sample: TextSample, sources: tuple[SourceInfo, ...]) -> None:
        self.received = (error, sample, sources)

    def of_three_or_two(
        self, error: Exception, sample: TextSample, sources: tuple[SourceInfo, ...] | None = None
    ) -> None:
        self.received = (error, sample, sources)

    def of_any(self, *arguments: Any) -> None:
        self.received = arguments

    def of_two(self, error: Exception, key: str) -> None:
        self.received = (error, key)

    def of_three_under_other_names(self, error: Exception, failed: Any, origin: Any = None) -> None:
        self.received = (error, failed, origin)


ERROR = ValueError("x")


@pytest.mark.parametrize(
    ("method", "received"),
    [
        ("of_three", (ERROR, SAMPLE, SOURCES)),
        ("of_three_or_two", (ERROR, SAMPLE, SOURCES)),
        ("of_any", (ERROR, SAMPLE, SOURCES)),
        ("of_two", (ERROR, "a.tar/0001")),
        ("of_three_under_other_names", (ERROR, SAMPLE, SOURCES)),
    ],
)
def test_a_handler_takes_the_sample_and_its_sources_or_only_the_key(method: str, received: Any) -> None:
    handler = Handler()
    three_argument_handler(getattr(handler, method))(ERROR, SAMPLE, SOURCES)
    assert handler.received == received


def test_a_handler_of_keys_gets_none_for_a_sample_without_a_key() -> None:
    received: list[Any] = []
    three_argument_handler(lambda error, key: received.append(key))(ERROR, b"no sample", None)
    assert received == [None]


def test_handlers_written_in_c_get_three_arguments() -> None:
    received: list[Any] = []
    sink = type("Sink", (), {"write": received.append})
    handler: Callable[..., Any] = three_argument_handler(functools.partial(print, file=sink))
    handler(1, 2, 3)
    assert "".join(map(str, received)) == "1 2 3\n"


@pytest.mark.parametrize("handler", [lambda: None, lambda error: None, lambda a, b, c, d: None])
def test_a_handler_of_other_arguments_is_refused_before_a_failure(handler: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="takes other arguments"):
        three_argument_handler(handler)
