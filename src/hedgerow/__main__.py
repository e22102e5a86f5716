"""`hedgerow`, and `python -m hedgerow`."""

from __future__ import annotations

from hedgerow.cli.interrupt import exit_on_interrupt


def main() -> None:
    """Run the command line."""
    with exit_on_interrupt():
        from hedgerow.cli.main import main as run_command
    run_command()


if __name__ == "__main__":
    main()
