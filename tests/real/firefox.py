"""Debian's Firefox, driven by WebDriver BiDi: https://w3c.github.io/webdriver-bidi/."""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from .servers import PATIENCE, Running, clean_environment, wait_for

# What keeps a browser quiet: no updates, no look at other hosts, every name resolved to nothing but this machine.
_PREFERENCES = {
    "remote.prefs.recommended": True, "app.update.disabledForTesting": True, "network.proxy.type": 1,
    "network.proxy.socks": "127.0.0.1", "network.proxy.socks_port": 1, "network.proxy.no_proxies_on": "127.0.0.1",
    "network.proxy.allow_hijacking_localhost": False, "datareporting.policy.dataSubmissionEnabled": False,
}  # fmt: skip


class Firefox(Running):
    """A Firefox with a profile of its own below *folder*. *preferences* are as in `about:config`."""

    def __init__(self, program: str, folder: Path, preferences: Mapping[str, bool | int | str]) -> None:
        folder.mkdir(parents=True)
        lines = (
            f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
            for name, value in {**_PREFERENCES, **preferences}.items()
        )
        (folder / "user.js").write_text("".join(lines))
        command = [
            program,
            "--headless",
            "--no-remote",
            "--profile",
            str(folder),
            "--remote-debugging-port",
            "0",
            "--remote-allow-system-access",
        ]
        super().__init__(command, folder / "log", cwd=folder, environment=clean_environment(HOME=str(folder)))
        wait_for("Firefox", lambda: self._address() or not self.alive)
        address = self._address()
        assert address, self.said()
        self._numbers = itertools.count(1)
        self._connection: ClientConnection = connect(address + "/session", max_size=None, proxy=None, legacy=True)
        self.call("session.new", capabilities={})

    def _address(self) -> str:
        found = re.search(r"BiDi listening on (ws://\S+)", self.said())
        return found[1] if found else ""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._connection.recv(timeout=PATIENCE))
            if answer.get("id") != number:
                continue
            assert answer["type"] == "success", f"{method}: {answer.get('error')}: {answer.get('message')}"
            result: dict[str, Any] = answer["result"]
            return result

    @contextmanager
    def tab(self) -> Iterator[Tab]:
        """A tab of somebody who has never been anywhere: with cookies of its own."""
        person = self.call("browser.createUserContext")["userContext"]
        try:
            yield Tab(self, self.call("browsingContext.create", type="tab", userContext=person)["context"])
        finally:
            self.call("browser.removeUserContext", userContext=person)

    def end(self) -> None:
        self._connection.close()
        self.stop()


class Tab:
    """One tab, used as people use it: by addresses, clicks and the buttons beside the address bar."""

    def __init__(self, firefox: Firefox, context: str) -> None:
        self._firefox = firefox
        self.context = context

    def goto(self, url: str) -> None:
        self._firefox.call("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def note_scripts(self) -> None:
        """Note on every page from now on which scripts have run, for `wait_for_script`."""
        note = (
            "({ target }) => { if (target.localName === 'script') window.ran = (window.ran || []).concat(target.src); }"
        )
        self._firefox.call(
            "script.addPreloadScript", functionDeclaration=f"() => document.addEventListener('load', {note}, true)",
            contexts=[self.context], sandbox="test",
        )  # fmt: skip

    def wait_for_script(self, name: str) -> None:
        """Wait until the script whose address ends with *name* has run on the page."""
        ends = f"(window.ran || []).some(src => src.endsWith({json.dumps(name)}))"
        wait_for(f"{name}, at {self.url}", lambda: self.evaluate(ends))

    def reload(self) -> None:
        self._firefox.call("browsingContext.reload", context=self.context, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The value of JavaScript, as JSON has it."""
        found = self._firefox.call(
            "script.evaluate", expression=f"(async () => JSON.stringify(await ({expression})))()",
            target={"context": self.context, "sandbox": "test"}, awaitPromise=True,
        )  # fmt: skip
        assert found["type"] == "success", found
        value = found["result"].get("value")
        return None if value is None else json.loads(value)

    @property
    def url(self) -> str:
        """What the address bar shows."""
        tree = self._firefox.call("browsingContext.getTree", root=self.context, maxDepth=0)
        return str(tree["contexts"][0]["url"])

    @property
    def title(self) -> str:
        return str(self.evaluate("document.title"))

    def wait_for_title(self, title: str) -> None:
        wait_for(f"{title}, at {self.url}", lambda: self._is_loaded(title))

    def _is_loaded(self, title: str) -> bool:
        try:
            return bool(self.evaluate("document.readyState === 'complete' && document.title") == title)
        except AssertionError:  # between two pages
            return False

    def click(self, text: str, *, button: int = 0, keys: str = "") -> None:
        """Click the link with this text; *button* 1 is the middle one, and *keys* are held down."""
        self._press(f"[...document.links].find(link => link.textContent === {json.dumps(text)})", button, keys)

    def click_element(self, selector: str) -> None:
        self._press(f"document.querySelector({json.dumps(selector)})", 0, "")

    def _press(self, element: str, button: int, keys: str) -> None:
        x, y = self.evaluate(
            f"(e => (e.scrollIntoView({{block: 'center'}}), e = e.getClientRects()[0], [e.x + e.width / 2, "
            f"e.y + e.height / 2]))({element})"
        )
        self._perform({"type": "pointerMove", "x": round(x), "y": round(y)}, button, keys)

    def _perform(self, move: dict[str, Any], button: int, keys: str) -> None:
        pointer = [move, {"type": "pointerDown", "button": button}, {"type": "pointerUp", "button": button}]
        down, up = ([{"type": kind, "value": key} for key in keys] for kind in ("keyDown", "keyUp"))
        wait = [{"type": "pause"}] * len(keys)
        actions = [
            {"type": "key", "id": "keys", "actions": [*down, *([{"type": "pause"}] * 3), *up]},
            {"type": "pointer", "id": "mouse", "actions": [*wait, *pointer, *wait]},
        ]
        self._firefox.call("input.performActions", context=self.context, actions=actions)

    def press(self, key: str, held: str = "") -> None:
        """Press a key while others are *held*."""
        down = [{"type": "keyDown", "value": one} for one in held + key]
        up = [{"type": "keyUp", "value": one} for one in key + held]
        actions = [{"type": "key", "id": "keys", "actions": down + up}]
        self._firefox.call("input.performActions", context=self.context, actions=actions)

    def screenshot(self) -> bytes:
        """The whole page as a PNG."""
        found = self._firefox.call("browsingContext.captureScreenshot", context=self.context, origin="document")
        return base64.b64decode(found["data"])

    def nodes(self, selector: str, text: str) -> list[dict[str, Any]]:
        """The elements with this text, found without JavaScript."""
        locator = {"type": "css", "value": selector}
        options = {"maxDomDepth": 1, "includeShadowTree": "none"}
        found = self._firefox.call(
            "browsingContext.locateNodes", context=self.context, locator=locator, serializationOptions=options
        )["nodes"]
        return [
            node
            for node in found
            if [child["value"].get("nodeValue") for child in node["value"].get("children", ())] == [text]
        ]

    def accessible_links(self) -> list[str]:
        """The texts of the links in the accessibility tree."""
        locator = {"type": "accessibility", "value": {"role": "link"}}
        options = {"maxDomDepth": 1, "includeShadowTree": "none"}
        found = self._firefox.call(
            "browsingContext.locateNodes", context=self.context, locator=locator, serializationOptions=options
        )["nodes"]
        return ["".join(child["value"].get("nodeValue", "") for child in node["value"]["children"]) for node in found]

    def click_node(self, selector: str, text: str) -> None:
        """Click an element without JavaScript; it must be in view."""
        origin = {"type": "element", "element": {"sharedId": self.nodes(selector, text)[0]["sharedId"]}}
        self._perform({"type": "pointerMove", "x": 0, "y": 0, "origin": origin}, 0, "")

    def go(self, steps: int) -> None:
        """Go back (less than 0) or forward. Whoever calls this waits for what is to be there then."""
        self._firefox.call("browsingContext.traverseHistory", context=self.context, delta=steps)

    def opened(self, before: list[str]) -> Tab:
        """The tab that was opened since *before*."""
        wait_for("the new tab", lambda: len(self.tabs()) > len(before))
        return Tab(self._firefox, next(one for one in self.tabs() if one not in before))

    def tabs(self) -> list[str]:
        return [one["context"] for one in self._firefox.call("browsingContext.getTree")["contexts"]]

    def close(self) -> None:
        self._firefox.call("browsingContext.close", context=self.context)

    def print(self) -> bytes:
        """The page as a PDF."""
        return base64.b64decode(self._firefox.call("browsingContext.print", context=self.context)["data"])
