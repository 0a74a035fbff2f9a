"""Every example in a docstring prints what it shows."""

from __future__ import annotations

import doctest
from importlib import import_module

from tests.source_tree import BELOW_TORCH, layer_of, sources

MODULES = [source.module for source in sources() if ">>>" in source.text]


def test_the_examples_in_docstrings_are_true() -> None:
    failed: list[str] = []
    for module in MODULES:
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        # Readers of modules above the torch line have these imported.
        given = (
            {} if layer_of(module) in BELOW_TORCH else {"np": import_module("numpy"), "torch": import_module("torch")}
        )
        for example in doctest.DocTestFinder().find(import_module(module), extraglobs=given):
            runner.run(example, out=failed.append)
        if not runner.tries:
            failed.append(f"{module} has '>>>' in it, but no example that runs")
    assert not failed, "".join(failed)
