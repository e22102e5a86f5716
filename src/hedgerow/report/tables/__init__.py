"""
Analyse: the off-line tables. Log lines become rows of numbers, rows become one line of figures for each source.

Knows how lines are read fast (`scanning`, a compiled parser for ordinary lines, which `splitting` takes apart in memory
that is used again, `shelf`; every other line goes through `logs`, which stays the reference), how text becomes numbers
(`numbering`), which sessions sources came with (`kept`), where the rows are kept and sorted within a limit of memory
(`local_store`; `spark_store` answers the same `queries` in SQL) and what is counted for each source
(`counting`). Never judges: that is `report`'s. Called by `report` and the command line. Tests: `tests/analyse/`.
"""

import os

# The matrices here are small: threads for one of them wait for each other longer than they work, and on a busy machine
# much longer. Whoever wants them says so in the environment. To be set before numpy is there.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
