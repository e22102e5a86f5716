"""
Stores: what Hedgerow remembers.

Knows the state (counters and blocks: `memory`, `lmdb`, `redis`), the lists (`lists`), the ledger (the extended access
log: `sqlite`, `postgresql`), the key file, and a file of network operators (`asn`). Never judges. Made by `build` and
`storage`, called by the gate; each kind of store has one conformance suite that every engine must pass. Tests:
`tests/stores/`, and `tests/real/` for Redis and PostgreSQL.
"""
