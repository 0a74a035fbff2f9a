from energon_cli.preview import preview as command

__all__ = ["command"]
