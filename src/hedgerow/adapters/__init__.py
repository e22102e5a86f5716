"""
Adapters: where Hedgerow meets the network.

Knows how a request reaches the gate and how a decision becomes an answer: the ASGI middleware (`asgi`), the HTML on
its way out (`outgoing`), the reverse proxy (`proxy` on the client pool `upstream`), how uvicorn is run (`server`),
what visitors are shown (`pages`) and the admin listener (`admin`). Never judges. Made by the command line or by the
site's own code. Tests: `tests/adapters/`.
"""
