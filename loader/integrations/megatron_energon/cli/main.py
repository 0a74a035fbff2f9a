import sys

from energon_cli.checkpoint.command import checkpoint as checkpoint_command
from energon_cli.info.command import info as info_command
from energon_cli.lint.command import lint as lint_command
from energon_cli.main import cli as main
from energon_cli.mount.command import mount as mount_command
from energon_cli.prepare.command import prepare as prepare_command
from energon_cli.prepare.media import prepare_media as prepare_media_command
from energon_cli.preview.command import preview as preview_command
from energon_cli.runs.analyze_debug import analyze_debug as analyze_debug_command

__all__ = [
    "analyze_debug_command",
    "checkpoint_command",
    "info_command",
    "lint_command",
    "main",
    "mount_command",
    "prepare_command",
    "prepare_media_command",
    "preview_command",
]

if __name__ == "__main__":
    sys.exit(main())
