"""`from hedgerow.wsgi import Hedgerow`: the middleware for WSGI applications, such as Flask's and Django's."""

from hedgerow.web.wsgi import Hedgerow

__all__ = ["Hedgerow"]
