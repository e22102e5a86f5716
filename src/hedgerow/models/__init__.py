"""
Models: from a session's features to what the visitor is held to be.

Knows how a trained model scores one row, in plain Python (`scoring`), and the bundle in which models are kept
(`bundle`): JSON that is checked when it is loaded and executes nothing. Never trains (that is `training/`), reads a
visit or decides what is done: a judgement is evidence like any other. Called by the watch. Tests: `tests/models/`.
"""
