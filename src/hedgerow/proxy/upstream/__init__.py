"""
The client side of the proxy: HTTP/1.1 connections to one upstream, kept and reused.

    pool.py: Upstream              finds a connection for each request, within limits
    └── connection.py: Connection  one connection: an asyncio protocol around llhttp's response parser
        └── message.py: Answer     one response, filled as bytes arrive and read by the proxy

A page of 40 KB must cost little, so what can be done once is not done per request: no timer is set (one sweep
looks at the deadlines of all connections), a parser lives as long as its connection, and an answer that
arrived whole is read without another turn of the event loop.

It is the client who may be malicious, not the upstream; still an upstream's mistakes are contained: its head
is limited, its body is read no faster than the client takes it, and bytes that nobody asked for end the
connection, lest they be taken for the answer to another visitor's request.
"""
