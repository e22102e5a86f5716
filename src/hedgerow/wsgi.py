"""`from hedgerow.wsgi import Hedgerow`: the middleware for WSGI applications, such as Flask's and Django's."""

from hedgerow.adapters.wsgi import Hedgerow

__all__ = ["Hedgerow"]
