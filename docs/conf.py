"""How Sphinx builds the handbook from the pages in this folder: `make handbook`."""

project = "Hedgerow"
author = "The Hedgerow engineers"
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Hedgerow"
html_show_copyright = False
html_show_sphinx = False
# Links to files of a clone, and the levels of headings, are checked by tests/docs/test_handbook.py and in the source.
suppress_warnings = ["myst.xref_missing", "myst.header"]
# A table that the README includes.
exclude_patterns = ["arena-summary.md"]
