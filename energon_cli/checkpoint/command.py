"""``energon checkpoint``: the group of commands for saved states."""

from __future__ import annotations

import click

from ..command import CONTEXT_SETTINGS, LazyCommand, LazyGroup, add_common_options

_COMMANDS = {
    "info": LazyCommand(
        "energon_cli.checkpoint.info", "info", "Show the progress of a run, and the ranks it can resume on."
    ),
    "migrate": LazyCommand(
        "energon_cli.checkpoint.migrate", "migrate", "Continue a saved run with an edited mix of datasets."
    ),
    "redist": LazyCommand(
        "energon_cli.checkpoint.redist", "redist", "Convert the states of all ranks to another number of ranks."
    ),
}
_EXAMPLES = (
    ("Show the progress of a run", "energon checkpoint info /data/run/step_1000"),
    (
        "Convert the states of a run to 16 ranks",
        "energon checkpoint redist /data/run/step_1000/*.pt /data/run/for_16_ranks --new-world-size 16",
    ),
)


@click.group(
    "checkpoint",
    cls=LazyGroup,
    lazy_commands=_COMMANDS,
    examples=_EXAMPLES,
    context_settings=CONTEXT_SETTINGS,
    no_args_is_help=True,
    short_help="Inspect and redistribute saved states.",
)
def checkpoint() -> None:
    """Inspect states that loaders saved, and convert them to another number of ranks or another mix of datasets.

    A state may be anywhere in a JSON file or a torch.save file, next to models and other data. No code in a file is
    run, and no tensor is loaded.
    """


add_common_options(checkpoint)
