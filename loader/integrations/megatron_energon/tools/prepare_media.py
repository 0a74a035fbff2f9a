from energon_cli.prepare.media import prepare_media as command

__all__ = ["command"]
