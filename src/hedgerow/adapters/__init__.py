"""
Adapters: where Hedgerow meets the network.

Knows how a request reaches the gate and how a decision becomes an answer: the ASGI middleware (`asgi`), the same under
WSGI (`wsgi`, on coroutines that are `driven` by hand), the HTML on its way out (`outgoing`), the reverse proxy (`proxy`
on the client pool `upstream`), decisions for other servers (`service`: `forward_auth`, `spoe`) and lists for their
clients (`banlist`), how uvicorn is run (`server`), what visitors are shown (`pages`) and the admin listener (`admin`).
Never judges. Made by the command line or by the site's own code. Tests: `tests/adapters/`.
"""
