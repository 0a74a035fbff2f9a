"""``energon completion``: print the script that lets a shell complete this program."""

from __future__ import annotations

import click

from ...command import energon_command


@energon_command("completion", takes_path=False)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that lets SHELL complete the commands, flags and values of energon with the Tab key.

    In bash (4.4 or newer) and zsh (after compinit), eval "$(energon completion bash)" reads the script.

    Examples:
        Write the script for bash:
            energon completion bash > ~/.energon-complete.bash
        In fish, for every new shell:
            energon completion fish > ~/.config/fish/completions/energon.fish
    """
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    if complete is None:
        raise click.UsageError(f"This version of click has no completion for {shell}.")
    # Not source(), which for bash runs bash to find its version: the script may be for another machine.
    made = complete(click.get_current_context().find_root().command, {}, "energon", "_ENERGON_COMPLETE")
    click.echo(made.source_template % made.source_vars())
