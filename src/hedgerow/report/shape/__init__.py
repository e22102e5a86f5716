"""
Shape: what the traffic of a source looks like over time, and whether a crawler's does (PubCrawl, sections 3.2 and 3.3).

Knows how requests become series (`series`), how a series resembles itself (`autocorrelation`), how it falls into trend,
season and rest (`decomposition`), which numbers come of that (`features`), and how three classifiers vote on them
(`classify`, from a bundle of parameters, `bundle`). Never reads logs, asks the clock or trains (`training.shape` does).
Needs numpy, which the gate does without. Called by the report. Tests: `tests/shape/`.

    plan = plan_of(first, last)                          # interval, window, lags, and a sentence where the log is short
    counts = Counts.of_times(...) or .of_matrix(...) or Counts(...)
    found = features(counts, plan)                       # one row a source that has enough requests
    verdicts = classify(found, load())                   # scores, votes, reasons in words
"""
