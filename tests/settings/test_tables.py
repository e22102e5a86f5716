"""Every setting is documented, and an invalid value is a fault."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from hedgerow.settings import Settings
from hedgerow.settings.checks import split_listen, upstream_faults
from hedgerow.settings.tables import MarkerSettings

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"


def sections() -> dict[str, str]:
    """The sections of the documentation by the table they are about."""
    _, *parts = re.split(r"^### (.+)$", DOCS.read_text("utf-8"), flags=re.MULTILINE)
    return {name.strip().strip("`[]").lower(): text for name, text in zip(parts[::2], parts[1::2], strict=True)}


def tables() -> list[tuple[str, type[msgspec.Struct]]]:
    found: list[tuple[str, type[msgspec.Struct]]] = [("top level", Settings)]
    return found + [
        (field.name, field.type)
        for field in msgspec.structs.fields(Settings)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
    ]


@pytest.mark.parametrize(("name", "table"), tables(), ids=[name for name, _ in tables()])
def test_every_setting_is_documented_in_the_section_of_its_table(name, table):
    rows = re.findall(r"^\| *`?(\w+)`? *\| *(.*?) *\|", sections()[name], flags=re.MULTILINE)
    documented = {row: default.strip("`") for row, default in rows if row != "name"}
    inner = dict(tables()) if table is Settings else {}
    fields = {field.name: field for field in msgspec.structs.fields(table) if field.name not in inner}
    assert set(documented) == set(fields)
    for field in fields.values():
        default = field.default
        if isinstance(default, bool | int | float | str):
            assert documented[field.name] == msgspec.json.encode(default).decode(), f"{name}.{field.name}"


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("[::1]:0", "::1", 0),
        (":80", "", 80),
        ("a.example:65535", "a.example", 65535),
    ],
)
def test_host_and_port_are_split(text, host, port):
    assert split_listen(text) == (host, port)


@pytest.mark.parametrize("text", ["", "8080", "a:", "a:b", "a:-1", "a:65536", "a:80 ", "a:٨", "a:" + "9" * 5000])
def test_an_invalid_host_and_port_is_rejected(text):
    with pytest.raises(ValueError, match=r"HOST:PORT|Exceeds the limit"):
        split_listen(text)


@pytest.mark.parametrize(
    "upstream",
    [
        "http://127.0.0.1",
        "http://127.0.0.1:8000",
        "https://a_b.example/",
        "http://[::1]:80",
        "http://localhost:1",
        "https://x:65535",
    ],
)
def test_valid_upstreams_have_no_fault(upstream):
    assert list(upstream_faults(upstream)) == []


@pytest.mark.parametrize(
    "upstream",
    [
        "127.0.0.1:8000", "ftp://x", "http://", "http:///", "http://a b", "http://x/path", "http://x:0",
        "http://x:65536", "http://x:http", "http://x?y", "http://x#y", "http://[::1", "http://::1", "http://x:٨", "", "http://x\n",
    ],
)  # fmt: skip
def test_an_invalid_upstream_is_a_fault(upstream):
    ((name, sentence),) = upstream_faults(upstream)
    assert name == "upstream"
    assert repr(upstream) in sentence


@pytest.mark.parametrize("prefix", ["/~", "/a", "/a/b-", "/a/", "/.x", "/x.", "/."])
def test_valid_marker_prefixes_have_no_fault(prefix):
    assert list(MarkerSettings(prefix=prefix).faults()) == []


@pytest.mark.parametrize(
    "prefix", ["", "/", "~", "//x", "/a//b", "/./a", "/../a", "/a/..", "/a?", "/a b", "/ä", "/a%41", '/"']
)
def test_an_invalid_marker_prefix_is_a_fault(prefix):
    assert [name for name, _ in MarkerSettings(prefix=prefix).faults()] == ["prefix"]
