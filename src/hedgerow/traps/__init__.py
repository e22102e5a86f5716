"""
Traps: hidden links, the maze, the tarpit, and the robots.txt rules that warn polite crawlers.

Owns the content and the schedules of traps. Never decides who is trapped (`detectors.trap` does) and does no I/O.
Called by `web`. Tests: `tests/traps/`.
"""
