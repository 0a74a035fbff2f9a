from energon_cli.prepare.command import prepare as command

__all__ = ["command"]
