"""
Sessions: the last visits of one visitor, and the numbers that models judge it by.

Knows PathMarker's long and short sessions with their six features (`paths`), the window of 27 to 40 visits of the
sliding-window paper with its features (`window`), and whom to forget first (`recent`). Never judges, asks the clock or
keeps more than one visitor: who calls keeps one of each for every visitor. Called by the watch, by training and by
evaluation. Tests: `tests/sessions/`.
"""
