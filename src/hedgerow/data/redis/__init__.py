"""The Lua scripts of the state in Redis, one for each query. See `state.redis.scripts`."""
