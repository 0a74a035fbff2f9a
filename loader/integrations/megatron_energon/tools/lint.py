from energon_cli.lint import lint as command

__all__ = ["command"]
