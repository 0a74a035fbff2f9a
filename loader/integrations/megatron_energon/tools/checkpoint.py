from energon_cli.checkpoint.command import checkpoint as command

__all__ = ["command"]
