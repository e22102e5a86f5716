"""State shared by several machines, in Redis or Valkey. Needs the extra `redis`. Tests: `tests/state/redis/`."""
