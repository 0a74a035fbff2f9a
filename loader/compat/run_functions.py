"""The functions that start a run, with the signatures and defaults that megatron-energon has."""

import multiprocessing
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import ParamSpec, TypeVar

from ..training.datasets import get_datasets
from ..training.loaders import get_loader as loaders

P = ParamSpec("P")
T = TypeVar("T")


def _with_forked_workers(build: Callable[P, T]) -> Callable[P, T]:
    """Return the function with another default: workers are forked, whatever start method the process has set."""

    @wraps(build)
    def with_forked_workers(*arguments: P.args, **options: P.kwargs) -> T:
        chosen = options.get("worker_type") or options.get("multiprocessing_context")
        if chosen is None and "fork" in multiprocessing.get_all_start_methods():
            options["multiprocessing_context"] = "fork"
        return build(*arguments, **options)

    with_forked_workers.__module__ = __name__  # where it is found, also by pickle
    return with_forked_workers


def _with_required_config(build: Callable[P, T]) -> Callable[P, T]:
    """Return the function with a signature that requires ``worker_config``, as frameworks check before they call it.

    A call without it is served: pages of documentation have such calls.
    """

    @wraps(build)
    def with_required_config(*arguments: P.args, **options: P.kwargs) -> T:
        return build(*arguments, **options)

    shown = signature(build)
    parameters = {**shown.parameters}
    parameters["worker_config"] = parameters["worker_config"].replace(default=Parameter.empty)
    with_required_config.__dict__["__signature__"] = shown.replace(parameters=[*parameters.values()])
    with_required_config.__module__ = __name__
    return with_required_config


get_loader = _with_forked_workers(loaders.get_loader)
get_savable_loader = _with_forked_workers(loaders.get_savable_loader)
get_train_dataset = _with_required_config(get_datasets.get_train_dataset)
get_val_dataset = _with_required_config(get_datasets.get_val_dataset)
get_val_datasets = _with_required_config(get_datasets.get_val_datasets)
