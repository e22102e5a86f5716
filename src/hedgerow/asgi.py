"""`from hedgerow.asgi import Hedgerow`: the middleware for ASGI applications."""

from hedgerow.web.asgi import Hedgerow

__all__ = ["Hedgerow"]
