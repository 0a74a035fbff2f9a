from energon_cli.prepare import prepare as command

__all__ = ["command"]
