"""The small programs of `hedgerow demo`, each run as a process of its own: a site, two crawlers, and a hop."""
