"""
Windows: how many visits in how many seconds.

Knows sliding windows over the times of visits, and which limits a site's own log suggests. Never keeps state of its
own or decides: the stores keep the hits, the density detector reads the counts. Called by `stores`, `detect` and
`replay`. Tests: `tests/windows/`.
"""
