"""
The HTTP client of the proxy, of look-ups and of challenge providers: a pool of HTTP/1.1 connections to one server.

    pool.py: Upstream                  finds a connection for each request, within limits
    └── connection.py: Connection      one connection: an asyncio protocol around llhttp's response parser
        └── UpstreamResponse           one response, filled as bytes arrive and read by the proxy

A page of 40 KB must cost little, so nothing is done per request that can be done once. No timer is set: one sweep
checks the deadlines of all connections. A parser lives as long as its connection. A response that arrived completely is
read without another iteration of the event loop.

Clients may be malicious; the upstream is only assumed to make mistakes, which are contained. Its head is limited, and
its body is read no faster than the client takes it. Unexpected bytes end the connection, so that they are never taken
for the response to another visitor's request.
"""
