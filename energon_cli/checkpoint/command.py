"""``energon checkpoint``: the commands for states that loaders saved."""

from __future__ import annotations

import click

from ..command import CONTEXT_SETTINGS, LazyCommand, LazyGroup, debug_option

__all__ = ["checkpoint"]

_COMMANDS = {
    "info": LazyCommand(
        module="energon_cli.checkpoint.info",
        attribute="info",
        short_help="Say where a run stands, and on how many ranks it can go on.",
    ),
    "redist": LazyCommand(
        module="energon_cli.checkpoint.redist",
        attribute="redist",
        short_help="Write the states of all ranks for another number of ranks.",
    ),
}
_EXAMPLES = (
    ("See where a run stands", "energon checkpoint info /data/run/step_1000"),
    (
        "Let a run of any number of ranks go on with 16",
        "energon checkpoint redist /data/run/step_1000/*.pt /data/run/for_16_ranks --new-world-size 16",
    ),
)


@click.group(
    "checkpoint",
    cls=LazyGroup,
    late=_COMMANDS,
    examples=_EXAMPLES,
    context_settings=CONTEXT_SETTINGS,
    no_args_is_help=True,
    short_help="Look into saved states, and write them for other ranks.",
)
def checkpoint() -> None:
    """Look into states that loaders saved, and make them fit another number of ranks.

    A state may lie in a file of its own, or within whatever a training script saved beside it: in JSON, or in a file of
    torch.save. Nothing in a file is run, and no tensor is loaded.
    """


checkpoint.params.append(debug_option())
