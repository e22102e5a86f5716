"""`from hedgerow.asgi import Hedgerow`: the middleware for ASGI applications."""

from hedgerow.adapters.asgi import Hedgerow

__all__ = ["Hedgerow"]
