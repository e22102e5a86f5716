"""The report as one HTML file that loads nothing. Tests: `tests/report/html/`."""
