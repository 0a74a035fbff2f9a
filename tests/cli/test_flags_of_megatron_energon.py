"""Flags of megatron-energon are valid here, and what follows two dashes is no option."""

from __future__ import annotations

import click
import pytest

from energon_cli.main import cli
from energon_cli.settings import scoped_settings
from tests.cli.test_commands import commands

COMMANDS = dict(commands())
PEER_FLAGS = {
    "analyze-debug": "--heatmap-path --heatmap-steps --heatmap-samples --heatmap-gain --force-loading-order"
    " --include-modality --skip --no-colors",
    "checkpoint redist": "--new-world-size",
    "info": "--split-config --dataset-config",
    "lint": "--split-parts --dataset-config --split-config --parallel",
    "mount": "-d --detach -s --sample-folders -w --allow-slow",
    "prepare": "--progress --no-progress --split-parts --exclude --num-workers --tar-index-only --shuffle-tars"
    " --media-metadata-by-glob --media-metadata-by-header --media-metadata-by-extension --fix-duplicates"
    " --non-interactive --split-ratio --force-overwrite --skip-dataset-yaml --dataset-yaml-name --sample-type"
    " --field-map --tmp-path",
    "prepare-media": "--progress --no-progress --num-workers --media-metadata-by-glob --media-metadata-by-header"
    " --media-metadata-by-extension --tmp-path",
    "preview": "--split-parts --dataset-config",
}
"""The flags that ``--help`` of megatron-energon 7.4 lists."""


@pytest.mark.parametrize("name", PEER_FLAGS)
def test_a_flag_of_megatron_energon_is_a_flag_here(name: str) -> None:
    flags = {flag for one in COMMANDS[name].params for flag in (*one.opts, *one.secondary_opts)}
    assert not {*PEER_FLAGS[name].split()} - flags


def test_what_follows_two_dashes_is_no_option() -> None:
    parent = click.Context(cli, info_name="energon")
    with scoped_settings():
        context = COMMANDS["preview"].make_context("preview", ["p", "--", "--limit"], parent=parent)
    assert context.params["keys"] == ("--limit",)
