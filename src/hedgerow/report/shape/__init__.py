"""
Shape: the traffic of a source over time, and whether it looks like a crawler's (PubCrawl, sections 3.2 and 3.3).

Owns how requests become series with trend, season and rest (`series`), how a series resembles itself
(`autocorrelation`), the numbers made from these (`features`), and the vote of three classifiers (`vote`, with
parameters from `classifiers`). Never reads logs, asks the clock or trains (`lab.train.shape_model` does). Called by the
report. Tests: `tests/report/shape/`.

    plan = plan_of(first, last)                          # interval, window, lags, and a sentence about a short log
    counts = Counts.of_times(...) or Counts(...)
    found = features(counts, plan)                       # one row for each source with enough requests
    verdicts = classify(found, load())                   # scores, votes, reasons in words
"""
