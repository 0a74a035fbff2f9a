from energon_cli.preview.command import preview as command

__all__ = ["command"]
