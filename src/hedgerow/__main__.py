"""`hedgerow`, and `python -m hedgerow`."""

from __future__ import annotations

from hedgerow.interrupted import ending_at_once


def main() -> None:
    """Run the command line."""
    with ending_at_once():
        from hedgerow import cli
    cli.main()


if __name__ == "__main__":
    main()
