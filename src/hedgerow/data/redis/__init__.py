"""The scripts that Redis runs for the state: one for each question. See `stores.redis_scripts`."""
