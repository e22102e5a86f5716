"""
Hedgerow stands in front of a web site, or reads its logs, and tells crawlers from people.

The map, from the outside in:

    cli/        the commands                         settings/  TOML and environment -> checked settings
    adapters/   asgi (the middleware), wsgi, proxy,  build.py   settings -> a gate; build_bots.py the known bots alone
                forward_auth, banlist, workers, ...  gate.py    identify -> recall -> judge -> commit -> ledger
    storage.py  settings -> stores, for one          engine.py  pure: what is asked, what is decided
                process, workers, machines           holdings.py what a site remembers in
    watch.py    sees visits behind the fast path     relay.py   visits on their way to a watch elsewhere
    shared_watch.py  one watch of several processes, by streams of Redis
    report/     who crawls, by a log                 analyse/   log lines -> figures for each source
    replay.py   a log through the same gate          campaigns/ visitors that belong together
    stores/     state, lists, ledger, key            detect/    one file per detector: evidence
    logs/       log lines -> visits                  policy/    from evidence to decision; lists
    lookups/    names and keys, in the background    sessions/  the last visits of one visitor, as numbers
    identity/   who is asking                        windows/   how many in how many seconds
    traps/      bait, maze, tarpit, robots.txt       marker/    our links: seal, resolve, rewrite
    page/       HTML on its way out                  challenge/ what a suspect is asked; clearance
    exchange/   lists to and from other programs     simulate/  the papers' experiments
    crawl/      training crawlers                    training/  where models come from; the gate does without
    models/     from a session to what a visitor is  shape/     what a source's traffic looks like over time (numpy)
    recall.py verdict.py visit.py errors.py          the nouns; interrupted.py: Ctrl-C before anything has begun

Imports point down only. From the engine down nothing knows of sockets, the clock or files: a live request and a line of
a log become the same `Visit`, and the visit's own time is the time.
"""

__version__ = "0.1.0"
