from energon_cli.lint.command import lint as command

__all__ = ["command"]
