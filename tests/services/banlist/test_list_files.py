"""Files for other servers: what stands in them, and that they change when lists do and when something ends."""

from __future__ import annotations

import sys

from driving import Clock
from hedgerow.core.decision import Block, Evidence
from hedgerow.lists.model import Listing
from hedgerow.services.banlist.list_files import ListFiles, networks_of, text_of
from hedgerow.services.banlist.local_lists import LocalLists
from hedgerow.services.banlist.messages import ListMessage
from serving_clients import wait_for

TRAP = Evidence("trap", "trap", 1.0, "It followed a link that no person can see.")


def block(key: str, until: float = 100.0) -> Block:
    return Block(key, key, 0.0, until, "refuse", TRAP)


def test_only_addresses_and_networks_that_are_in_force():
    listings = [
        Listing("black", "192.0.2.0/24"), Listing("white", "192.0.2.7"), Listing("black", "account:eve"),
        Listing("black", "agent:*Bot*"), Listing("black", "AS64496"), Listing("black", "203.0.113.1", until=5.0),
        Listing("black", "2001:db8::/32"),
    ]  # fmt: skip
    blocks = [
        block("198.51.100.1"), block("198.51.100.2", until=5.0), block("account:eve"), block("clearance:x"),
        block("2001:db9:0:1::/64"), block("198.51.100.9/*"),
    ]  # fmt: skip
    assert networks_of(listings, blocks, 10.0) == {
        "192.0.2.0/24": "black", "192.0.2.7": "white", "2001:db8::/32": "black", "198.51.100.1": "black",
        "2001:db9:0:1::/64": "black", "198.51.100.9": "black",
    }  # fmt: skip


def test_a_white_entry_goes_before_a_block_and_before_a_black_one_on_the_same():
    listings = [Listing("white", "192.0.2.0/24"), Listing("black", "10.0.0.1"), Listing("white", "10.0.0.1")]
    assert networks_of(listings, [block("192.0.2.1")], 1.0) == {"192.0.2.0/24": "white", "10.0.0.1": "white"}
    assert networks_of(listings[::-1], [], 1.0)["10.0.0.1"] == "white"


def test_each_server_has_its_own_form():
    networks = {"2001:db8::/32": "black", "192.0.2.7": "white", "10.0.0.0/8": "black"}
    assert text_of("nginx", networks).splitlines()[1:] == [
        "10.0.0.0/8 black;",
        "192.0.2.7 white;",
        "2001:db8::/32 black;",
    ]
    assert text_of("map", networks).splitlines()[1:] == ["10.0.0.0/8 black", "192.0.2.7 white", "2001:db8::/32 black"]


def test_a_file_follows_the_lists_and_is_written_only_when_it_changes(tmp_path):
    local, clock, path, ran = LocalLists(), Clock(1.0), tmp_path / "listed", tmp_path / "ran"
    said = "import sys; open(sys.argv[1], 'a').write('x')"
    files = ListFiles(local, {path: "map"}, [sys.executable, "-c", said, str(ran)], clock)
    files.start()
    try:
        assert path.read_text() == ""
        local.take([ListMessage(start=True), ListMessage(put=Listing("black", "192.0.2.1")), ListMessage(at="a-1")])
        wait_for("the file", lambda: "192.0.2.1 black" in path.read_text())
        wait_for("the command", ran.exists)
        local.take([ListMessage(put=Listing("black", "account:eve")), ListMessage(at="a-2")])
        local.take([ListMessage(drop=("black", "192.0.2.1")), ListMessage(at="a-3")])
        wait_for("the file again", lambda: "192.0.2.1" not in path.read_text())
        wait_for("the command again", lambda: ran.read_text() == "xx")
        assert files.written == 2
    finally:
        files.close()


def test_what_ends_leaves_the_file(tmp_path):
    local, clock, path = LocalLists(), Clock(1.0), tmp_path / "listed"
    files = ListFiles(local, {path: "nginx"}, clock=clock)
    local.take([ListMessage(block=block("192.0.2.1", until=50.0)), ListMessage(at="a-1")])
    assert files.write() == 49.0
    assert "192.0.2.1 black;" in path.read_text()
    clock.now = 50.0
    assert files.write() == 60.0
    assert "192.0.2.1" not in path.read_text()
