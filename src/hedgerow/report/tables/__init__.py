"""
Tables: log lines become rows of numbers, and rows become one row of figures for each source.

Owns how logs are read (`ingest`: the compiled `line_scanner` for plain lines of large logs, the reference parser of
`logs` for all others), how texts become numbers (`row_builder`), where rows are stored and sorted within a limit of
memory (`local_store`; `spark_store` on other machines), and what is counted for each source (`figures`). Never judges.
Called by `report` and the command line. Tests: `tests/report/tables/`.
"""
