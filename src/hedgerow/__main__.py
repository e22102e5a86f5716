"""`hedgerow`, and `python -m hedgerow`."""

from __future__ import annotations

from hedgerow.cli.interrupt import ending_at_once


def main() -> None:
    """Run the command line."""
    with ending_at_once():
        from hedgerow.cli.main import main as run_command
    run_command()


if __name__ == "__main__":
    main()
