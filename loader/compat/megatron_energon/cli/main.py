import sys

from energon_cli.main import cli as main
from energon_cli.prepare.media import prepare_media as prepare_media_command

__all__ = ["main", "prepare_media_command"]

if __name__ == "__main__":
    sys.exit(main())
