"""`--help` of every command and subcommand, which are found in the help texts themselves, as a user would find them."""

from __future__ import annotations

import re
from pathlib import Path

from goldens.checkout import Checkout

FILE = "help.txt"
_FEWEST_COMMANDS = 20
_OTHER_BOXES = frozenset({"Options", "Arguments"})
_BOX = re.compile(r"^╭─ (?P<title>[^─]+?) ─+╮$(?P<lines>.*?)^╰─+╯$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^│ ([a-z][a-z-]*) ", re.MULTILINE)

Command = tuple[str, ...]


def record(checkout: Checkout, folder: Path) -> None:
    """Write all help texts into one file."""
    texts: dict[Command, str] = {}
    unread: list[Command] = [()]
    while unread:
        for command, done in zip(
            unread, checkout.run_all([((*command, "--help"), {}) for command in unread]), strict=True
        ):
            # Help is padded to the width of the terminal.
            texts[command] = re.sub(r" +$", "", done.text(), flags=re.MULTILINE)
        unread = [
            (*command, name)
            for command, text in texts.items()
            for name in commands_in(text)
            if (*command, name) not in texts
        ]
    if len(texts) < _FEWEST_COMMANDS:
        raise SystemExit(f"golden: found the help of {len(texts)} commands only:\n{texts[()]}")
    written = (f"$ {' '.join(('hedgerow', *command, '--help'))}\n{text}\n" for command, text in texts.items())
    (folder / FILE).write_text("".join(written), "utf-8")


def commands_in(text: str) -> list[str]:
    """The names in boxes of commands, which may be in groups."""
    boxes = [box["lines"] for box in _BOX.finditer(text) if box["title"] not in _OTHER_BOXES]
    return [name for lines in boxes for name in _COMMAND.findall(lines)]
