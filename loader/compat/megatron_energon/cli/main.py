import sys

from energon_cli.commands.make.prepare_media import prepare_media as prepare_media_command
from energon_cli.main import cli as main

__all__ = ["main", "prepare_media_command"]

if __name__ == "__main__":
    sys.exit(main())
