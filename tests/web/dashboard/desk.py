"""Drives the admin listener of a site in process."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any
from urllib.parse import urlencode

from driving import KEY, OPEN, Answer, settings
from hedgerow.core.decision import Block, Evidence
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.web.admin.app import Admin
from hedgerow.web.admin.passwords import hash_password
from hedgerow.web.app import Site

PASSWORD = "correct horse battery"
HASH = hash_password(PASSWORD)
USERS = "".join(
    f"[[admin.users]]\nname = '{name}'\npassword = '{HASH}'\nrole = '{role}'\n"
    for name, role in (("alice", "operator"), ("bob", "viewer"))
)
ORIGIN = "http://127.0.0.1:9000"
FORM = {"content-type": "application/x-www-form-urlencoded"}


class Desk:
    """The admin listener of a site whose files are in *directory*. Requests come from this machine."""

    def __init__(self, directory: Any = "", text: str = USERS) -> None:
        top = f"directory = '{directory}'\n" if directory else ""
        self.site = Site(settings(top + text), tokens=TokenCodecs([Key(1, KEY, 0.0)]))
        OPEN.append(self.site)
        self._admin = Admin(self.site)
        self.cookie = ""

    def ask(
        self, path: str = "/", method: str = "GET", *, body: bytes = b"", peer: str = "127.0.0.1", **headers
    ) -> Answer:
        path, _, query = path.partition("?")
        given = {"host": "127.0.0.1:9000", **({"cookie": self.cookie} if self.cookie else {}), **headers}
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "server": ("127.0.0.1", 9000), "client": (peer, 5000), "scheme": "http", "http_version": "1.1",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
        }  # fmt: skip
        sent: list = []

        received = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive():
            if (message := next(received, None)) is None:
                # The client stays until it has the response.
                await asyncio.sleep(60)
            return message

        async def send(message):
            sent.append(message)

        asyncio.run(self._admin(scope, receive, send))
        return Answer(sent[0]["status"], sent[0]["headers"], b"".join(m.get("body", b"") for m in sent[1:]), sent)

    def log_in(self, name: str = "alice", password: str = PASSWORD, **more: str) -> Answer:
        body = urlencode({"name": name, "password": password, **more}).encode()
        answer = self.ask("/login", "POST", body=body, origin=ORIGIN, **FORM)
        if answer.status == 303:
            self.cookie = answer.header("set-cookie").decode().partition(";")[0]
        return answer

    def form_token(self) -> str:
        return re.search(rb'name="form-token" content="(\w+)"', self.ask().body)[1].decode()

    def post(self, path: str, *, token: str | None = None, **fields: str) -> Answer:
        """Post a form of the dashboard, as a browser does."""
        fields["form_token"] = self.form_token() if token is None else token
        return self.ask(path, "POST", body=urlencode(fields).encode(), origin=ORIGIN, **FORM)

    def change(self, path: str, **fields: Any) -> Answer:
        """Change something by the API."""
        body = json.dumps(fields).encode()
        return self.ask(
            f"/api/v1/{path}", "POST", body=body, content_type="application/json", x_form_token=self.form_token()
        )

    def read(self, path: str) -> Any:
        answer = self.ask(f"/api/v1/{path}")
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def block(self, key: str, text: str = "Followed a hidden link.") -> None:
        now = time.time()
        evidence = Evidence("trap", "trap", 1.0, text)
        self.site.stores.state.commit(Block(key, key, now, now + 600, "refuse", evidence))
