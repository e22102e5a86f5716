"""`python -m hedgerow`."""

from hedgerow.cli import main

main()
