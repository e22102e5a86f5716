"""
Report: from the tables of a log to who crawls the site, how each was found, and what to do (PubCrawl as one command).

Knows the seven heuristics (`heuristics`), what user agents and addresses declare (`declared`), how opinions become one
score and one label (`judging`) and give evidence of many sources at once (`findings`), and how the result is written
(`result`, `telling`, `terminal`). Never reads a log itself: that is `analyse`'s. Called by the command line. Tests:
`tests/report/`.
"""
