from energon_cli.prepare_media import prepare_media as command

__all__ = ["command"]
