"""`from hedgerow.client import Client, AsgiClient, WsgiClient`: local lists for a site that asks a remote Hedgerow."""

from hedgerow.services.banlist.client import Asked, Client
from hedgerow.services.banlist.middleware import AsgiClient, WsgiClient

__all__ = ["AsgiClient", "Asked", "Client", "WsgiClient"]
