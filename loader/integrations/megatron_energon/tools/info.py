from energon_cli.info.command import info as command

__all__ = ["command"]
