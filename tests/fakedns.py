"""A name server on loopback: answers what it is told, or fails, or is silent."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.reversename
import dns.rrset


class FakeDns:
    """
    Serves *names* (address to name, or names) and *addresses* (name to addresses) by UDP. *mood* is "well",
    "failing" (SERVFAIL) or "silent".
    """

    def __init__(self, names=None, addresses=None) -> None:
        self.names = names or {}
        self.addresses = addresses or {}
        self.mood = "well"
        self.asked: Counter[str] = Counter()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def port(self) -> int:
        return self._socket.getsockname()[1]

    @property
    def server(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        # An empty datagram is the end.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as goodbye:
            goodbye.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join(5)
        self._socket.close()

    def is_true(self, address: str, name: str) -> None:
        """Name and address lead to each other."""
        self.names[address] = name
        self.addresses[name] = [address]

    def _serve(self) -> None:
        while True:
            data, peer = self._socket.recvfrom(4096)
            if not data:
                return
            query = dns.message.from_wire(data)
            question = query.question[0]
            name = question.name.to_text().rstrip(".")
            self.asked[f"{dns.rdatatype.to_text(question.rdtype)} {name}"] += 1
            if self.mood == "silent":
                continue
            answer = dns.message.make_response(query)
            answer.flags |= dns.flags.RA
            if self.mood == "failing":
                answer.set_rcode(dns.rcode.SERVFAIL)
            else:
                self._answer(answer, question, name)
            self._socket.sendto(answer.to_wire(), peer)

    def _answer(self, answer, question, name) -> None:
        if question.rdtype == dns.rdatatype.PTR:
            found = self.names.get(dns.reversename.to_address(question.name), [])
            found = [found] if isinstance(found, str) else found
            records = [one + "." for one in found]
        else:
            wanted = ":" if question.rdtype == dns.rdatatype.AAAA else "."
            records = [one for one in self.addresses.get(name, []) if wanted in one]
            if not records and name in self.addresses:
                return
        if not records:
            answer.set_rcode(dns.rcode.NXDOMAIN)
            return
        answer.answer.append(dns.rrset.from_text_list(question.name, 60, "IN", question.rdtype, records))


def settle(lookups) -> bool:
    """Wait until no lookup is pending. Returns whether that came to pass."""
    deadline = time.monotonic() + 10
    while lookups._pending and time.monotonic() < deadline:
        time.sleep(0.01)
    return not lookups._pending
