"""Every example in a docstring does what it says."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

from tests.source_tree import BELOW_TORCH, layer_of, sources

MODULES = [source.module for source in sources() if ">>>" in source.path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_in_docstrings_are_true(module: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=flags)
    # Readers of what lies above the torch line have these imported.
    given = {} if layer_of(module) in BELOW_TORCH else {"np": import_module("numpy"), "torch": import_module("torch")}
    for example in doctest.DocTestFinder().find(import_module(module), extraglobs=given):
        runner.run(example, out=report.append)
    assert runner.tries, f"{module} has '>>>' in it, but no example that runs"
    assert not runner.failures, "".join(report)
