"""Draw the terminal picture of the README: `energon prepare` and `energon preview` of a small dataset of photographs.

usage: python benchmarks/readme_picture.py FILE.svg

Runs both commands in a real terminal of 80 columns, reads what a terminal emulator shows, and exports it with rich.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import tempfile
from pathlib import Path

from demo_photographs import make_dataset
from pseudo_terminal import run_in_terminal
from pyte.screens import Char
from rich.console import Console
from rich.style import Style
from rich.text import Text

COLUMNS, LINES = 80, 30
COMMANDS = (
    "energon prepare photos --yes --split-ratio 2,1,1",
    "energon preview photos -n 1 shards/shard_000.tar/000002",
)
_HEX = re.compile(r"[0-9a-f]{6}")


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        with contextlib.redirect_stdout(io.StringIO()):
            make_dataset(Path("photos"))
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
        for command in COMMANDS:
            console.print(Text.assemble(("$ ", "bold green"), command), soft_wrap=True)
            for line in screen_of(command):
                console.print(line, soft_wrap=True)
            console.print()
    target.write_text(console.export_svg(title="energon"), encoding="utf-8")


def screen_of(command: str) -> list[Text]:
    """Run a command in a terminal and return the lines that the terminal shows."""
    code, screen = run_in_terminal(
        shlex.split(command),
        columns=COLUMNS,
        lines=LINES,
        variables={"TERM": "xterm-256color", "COLORTERM": "truecolor"},
    )
    if code:
        raise SystemExit(f"{command} exited with {code}:\n" + "\n".join(screen.all_text()))
    return [styled(line) for line in screen.all_lines()]


def styled(cells: list[Char]) -> Text:
    text = Text(end="")
    for cell in cells:
        text.append(cell.data, Style(color=colour(cell.fg), bgcolor=colour(cell.bg), bold=cell.bold))
    text.rstrip()
    return text


def colour(name: str) -> str | None:
    """Return rich's name of a colour of the emulator; None for the default one."""
    if name == "default":
        return None
    return f"#{name}" if _HEX.fullmatch(name) else {"brown": "yellow"}.get(name, name)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]).absolute())
