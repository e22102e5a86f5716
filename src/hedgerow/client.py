"""`from hedgerow.client import Client, AsgiClient, WsgiClient`: local lists for a site that asks a remote Hedgerow."""

from hedgerow.adapters.banlist.client import Asked, Client
from hedgerow.adapters.banlist.middleware import AsgiClient, WsgiClient

__all__ = ["AsgiClient", "Asked", "Client", "WsgiClient"]
