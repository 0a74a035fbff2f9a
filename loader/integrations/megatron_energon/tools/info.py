from energon_cli.info import info as command

__all__ = ["command"]
