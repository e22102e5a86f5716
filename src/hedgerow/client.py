"""`from hedgerow.client import Client, AsgiClient, WsgiClient`: local lists for a site that asks a remote Hedgerow."""

from hedgerow.services.banlist.client import Client, ClientRequest
from hedgerow.services.banlist.middleware import AsgiClient, WsgiClient

Asked = ClientRequest
"""The earlier name of `ClientRequest`."""

__all__ = ["AsgiClient", "Asked", "Client", "ClientRequest", "WsgiClient"]
