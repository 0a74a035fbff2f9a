import sys

from energon_cli.main import cli as main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
