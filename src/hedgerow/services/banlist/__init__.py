"""
The ban-list client and its server: for a site that must not wait for a network call.

Knows the two sides of one wire (`wire`): at the site the lists in memory (`local`), the thread that keeps them current
and sends visits (`link`), the middleware for ASGI and WSGI (`middleware`), a sidecar for other servers (`sidecar`) and
files for them (`files`); at `hedgerow serve` what has changed (`feed`) and who may know it (`desk`). Never judges: the
client does what lists and blocks say, and the gate of the server decides on the visits that it is sent. Made by the
site's own code or the command line. Tests: `tests/adapters/banlist/`.
"""
