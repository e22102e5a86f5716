"""The table [proxy]: the reverse proxy."""

from __future__ import annotations

from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.settings.checks import listen_faults, upstream_faults


class ProxySettings(Table, frozen=True):
    upstream: str = ""
    listen: str = "127.0.0.1:8080"
    preserve_host: bool = True
    connect_timeout: float = 5.0
    response_timeout: float = 60.0
    idle_timeout: float = 60.0
    head_timeout: float = 10.0
    shutdown_timeout: float = 30.0
    connections: int = 256
    longest_url: int = 16_384
    header_bytes: int = 65_536
    headers: int = 100
    websocket_message: int = 16_777_216

    def faults(self) -> Faults:
        yield from listen_faults("listen", self.listen)
        if self.upstream:
            yield from upstream_faults(self.upstream)
        yield from positive_faults(
            self, "connect_timeout", "response_timeout", "idle_timeout", "head_timeout", "shutdown_timeout",
            "connections", "longest_url", "header_bytes", "headers", "websocket_message",
        )  # fmt: skip
