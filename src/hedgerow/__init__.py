"""
Hedgerow stands in front of a web site, or reads its logs, and tells crawlers from people.

A live request and a line of a log become the same frozen `Visit`, and time is the visit's own time. Detectors produce
evidence, the policy decides, and the web layer acts. The packages, from the outside in:

    cli/          the commands of `hedgerow`
    lab/          training, simulation, training crawlers, demo; only `cli` imports it
    asgi.py, wsgi.py, client.py    public entry points

    proxy/        reverse proxy: HTTP server, upstream client, worker processes
    services/     decisions for other servers: forward-auth, SPOE, ban lists
    report/       who crawls, by a log: tables, traffic shape, campaigns, HTML; replay of a log

    web/          ASGI and WSGI middleware, response rewriting, response pages, admin listener
    watch/        analysis after the response: sessions, models, link sharing, campaigns

    logs/         log lines -> visits            settings/   TOML and environment -> checked settings
    lists/        white list and black list      state/      counters, scores, used challenges
    ledger/       the extended access log

    core/         visit, decision, state query, engine, gate
    detectors/    one file per detector          policy/     from evidence to a decision
    request/      raw request -> visit           challenge/  proof of work, CAPTCHA, clearance
    traps/        bait, maze, tarpit, robots.txt  markers/   encrypted links and their rewriting

Imports point down only; import-linter enforces it. From the engine down nothing uses sockets, the clock or files.
"""

__version__ = "0.1.0"
