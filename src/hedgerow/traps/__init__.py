"""
Traps: what only a crawler runs into: hidden links, the maze, the tarpit, and the robots.txt lines that warn of them.

Never decides who is trapped: that is `detectors.trap`. Called by `web`. Tests: `tests/traps/`.
"""
