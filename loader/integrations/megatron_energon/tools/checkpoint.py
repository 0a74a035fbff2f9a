from energon_cli.checkpoint import checkpoint as command

__all__ = ["command"]
