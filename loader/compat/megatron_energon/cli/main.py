"""The commands of ``energon`` as code for megatron-energon runs them: some print other lines, or end otherwise."""

import sys
from copy import copy
from dataclasses import replace
from typing import Any

import click

from energon_cli.commands.make.prepare.command import prepare
from energon_cli.commands.make.prepare_media import prepare_media
from energon_cli.main import cli
from loader import EmptyDatasetError, WorkerConfig, get_dataset_from_config, get_loader
from loader.compat.dataset_facts import check_dataset_info_present
from loader.samples.sample_format import shown_values

__all__ = ["main", "prepare_command", "prepare_media_command", "preview_command"]


def _prepare_once(path: str, **flags: Any) -> None:
    is_new = flags["force_overwrite"] or flags["tar_index_only"] or not flags["non_interactive"]
    if not is_new and check_dataset_info_present(path):
        raise click.ClickException("Dataset has already been prepared. Use --force-overwrite to overwrite.")
    prepare.callback(path, **flags)  # type: ignore[misc]  # it has one


def _prepare_media(path: str, **flags: Any) -> None:
    entries = prepare_media.callback(path, **flags)  # type: ignore[misc]  # it has one
    if not flags["as_json"]:
        click.echo(f"Done. Stored metadata for {entries} files.")


prepare_command, prepare_media_command = copy(prepare), copy(prepare_media)
prepare_command.callback, prepare_media_command.callback = _prepare_once, _prepare_media


@click.command("preview")
@click.argument("path")
@click.option("--split-parts", default="train,val,test", show_default=True)
@click.option("--dataset-config", default="dataset.yaml", show_default=True)
def preview_command(path: str, split_parts: str, dataset_config: str) -> None:
    """Print the fields of each sample, and ask whether to continue."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    for part in split_parts.split(","):
        source = get_dataset_from_config(
            path, dataset_config=dataset_config, split_part=part, training=False, worker_config=config
        )
        try:
            samples = get_loader(source.build())
        except EmptyDatasetError:
            click.echo(f"Dataset {part} is empty. Skipping.")
            continue
        for index, sample in enumerate(samples):
            click.echo(f"Sample {index}")
            for name, value, summary in shown_values(sample):
                shown = value.rpartition("/")[2] if name == "__key__" else value
                click.echo(f" - {name} ({type(value)}): {repr(shown) if isinstance(shown, str) else summary}")
            try:
                is_over = not click.confirm("Continue?")
            except click.Abort:  # the input has ended
                is_over = True
            if is_over:
                click.echo("Exiting Preview")
                break


# The group of the program, with these commands instead of its own.
main = copy(cli)
main.lazy_commands = cli.lazy_commands | {
    name: replace(cli.lazy_commands[name], place=f"megatron.energon.cli.main:{name.replace('-', '_')}_command")
    for name in ("prepare", "prepare-media", "preview")
}

if __name__ == "__main__":
    sys.exit(main())
