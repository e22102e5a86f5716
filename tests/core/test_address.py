"""Client addresses: headers are read from the right, and only from trusted proxies."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.core.address import Networks, Proxies, check_network, network_of, parse_address, prefix_of

IPV4 = st.ip_addresses(v=4).map(str)
IPV6 = st.ip_addresses(v=6).map(str)
CLIENT, NEAR, FAR = "198.51.100.7", "10.0.0.1", "10.0.0.2"
TRUSTED = ("10.0.0.0/8", "fd00::/8")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        (" 192.0.2.1 ", "192.0.2.1"),
        ("192.0.2.1:5000", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("2001:DB8:0:0::0001", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:5000", "2001:db8::1"),
        ('"[2001:db8::1]:5000"', "2001:db8::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("[::ffff:192.0.2.1]:80", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("", None),
        ("unknown", None),
        ("_hidden", None),
        ("192.0.2", None),
        ("192.0.2.256", None),
        ("192.0.2.01", None),
        ("192.0.2.1.", None),
        ("[192.0.2.1", None),
        ("1" * 100_000, None),
        ("192.0.2.1 evil", None),
    ],
)
def test_parse_address(text, address):
    assert parse_address(text) == address


@given(st.one_of(IPV4, IPV6))
def test_a_canonical_address_stays_as_it_is(address):
    parsed = parse_address(address)
    assert parsed is not None
    assert parse_address(parsed) == parsed
    if not address.startswith("::ffff:"):
        assert ipaddress.ip_address(parsed) == ipaddress.ip_address(address)


@given(st.text())
def test_arbitrary_text_is_handled_without_an_error(text):
    address = parse_address(text)
    assert address is None or ipaddress.ip_address(address)
    prefix_of(text)
    network_of(text)
    assert text not in Networks(["0.0.0.0/32"]) or text == "0.0.0.0"


@given(IPV6, IPV6)
def test_ipv6_visitors_are_told_apart_by_their_64(one, other):
    same = int(ipaddress.ip_address(one)) >> 64 == int(ipaddress.ip_address(other)) >> 64
    assert (prefix_of(one) == prefix_of(other)) == same
    assert prefix_of(one).endswith("/64")


def test_addresses_in_one_ipv6_64_are_one_visitor():
    assert prefix_of("2001:db8::1") == prefix_of("2001:db8::ffff:ffff:ffff:ffff") == "2001:db8::/64"
    assert prefix_of("2001:db8:0:1::1") != prefix_of("2001:db8::1")


@given(st.one_of(IPV4, IPV6))
def test_network_of_holds_its_address(address):
    network = ipaddress.ip_network(network_of(address))
    assert ipaddress.ip_address(address) in network
    assert network.prefixlen == (24 if network.version == 4 else 48)


@pytest.mark.parametrize("name", ["", "testclient", "host.example.org", "a:b:c", "1.2.3", "1.2.3.4.5", "x" * 1000])
def test_a_host_name_has_no_network(name):
    assert network_of(name) == ""
    assert prefix_of(name) == name


@given(st.lists(st.ip_addresses().flatmap(lambda a: st.integers(0, a.max_prefixlen).map(lambda n: (a, n)))), st.data())
def test_membership_in_networks_agrees_with_ipaddress(pairs, data):
    networks = [ipaddress.ip_network(pair, strict=False) for pair in pairs]
    inside = [st.ip_addresses(network=network) for network in networks]
    address = data.draw(st.one_of(st.ip_addresses(), *inside))
    found = Networks(map(str, networks))
    assert bool(found) == bool(networks)
    mapped = getattr(address, "ipv4_mapped", None)
    assert (str(address) in found) == any((mapped or address) in network for network in networks)


def test_an_ipv4_peer_of_a_dual_socket_is_in_its_ipv4_network():
    assert "::ffff:10.1.2.3" in Networks(["10.0.0.0/8"])
    assert Proxies(["10.0.0.0/8"]).trusts("::ffff:10.1.2.3")


@pytest.mark.parametrize("text", ["", "10.0.0.1/8", "10.0.0.0/33", "example.org", "10.0.0.0/8 ", "::/129", "10/8"])
def test_check_network_names_what_is_wrong(text):
    with pytest.raises(ValueError, match="is not a network") as error:
        check_network(text)
    assert repr(text) in str(error.value)


# ---- X-Forwarded-For


@pytest.mark.parametrize(
    ("header", "client"),
    [
        (CLIENT, CLIENT),
        (f"{CLIENT}, {FAR}", CLIENT),
        (f"6.6.6.6, {CLIENT}", CLIENT),
        (f"6.6.6.6, {CLIENT}, {FAR}, {NEAR}", CLIENT),
        (f"{FAR}, {CLIENT}", CLIENT),
        (f"{CLIENT}:4711, [fd00::1]:80", CLIENT),
        ("2001:db8::1", "2001:db8::1"),
        (f"::ffff:{CLIENT}", CLIENT),
        ("", NEAR),
        (FAR, FAR),
        (f"{CLIENT}, unknown", NEAR),
        (f"{CLIENT}, unknown, {FAR}", FAR),
        (f"{CLIENT},, {FAR}", FAR),
        (f"{CLIENT}, <script>", NEAR),
        (",".join(["6.6.6.6"] * 5000 + [CLIENT]), CLIENT),
        (",".join([CLIENT] + [FAR] * 5000), CLIENT),
    ],
)
def test_x_forwarded_for_is_read_from_the_right(header, client):
    assert Proxies(TRUSTED).client(NEAR, header) == client


@given(st.text(), IPV4.filter(lambda a: not a.startswith("10.")))
def test_a_client_cannot_spoof_its_address_in_x_forwarded_for(spoofed, client):
    assert Proxies(TRUSTED).client(NEAR, f"{spoofed}, {client}") == client
    assert Proxies(TRUSTED).client(NEAR, f"{spoofed}, {client}, {FAR}") == client


def test_nobody_is_trusted_by_default():
    assert not Proxies().trusts("127.0.0.1")
    assert not Proxies().trusts("")


# ---- Forwarded (RFC 7239)


@pytest.mark.parametrize(
    ("header", "client"),
    [
        (f"for={CLIENT}", CLIENT),
        (f"For={CLIENT};proto=http;by=203.0.113.43", CLIENT),
        (f"proto=http; FOR = {CLIENT}", CLIENT),
        (f'for="{CLIENT}:4711"', CLIENT),
        ('for="[2001:db8:cafe::17]:4711"', "2001:db8:cafe::17"),
        (f"for=6.6.6.6, for={CLIENT}, for={FAR}", CLIENT),
        (f"for={CLIENT}, for=unknown", NEAR),
        (f"for={CLIENT}, for=_gazonk", NEAR),
        (f"for={CLIENT}, proto=https", NEAR),
        (f'for={CLIENT};host="a,for=6.6.6.6"', CLIENT),
        (f'host="a;for=6.6.6.6";for={CLIENT}', CLIENT),
        (rf'host="a\";for=6.6.6.6;x=\"";for={CLIENT}', CLIENT),
        (rf'for={CLIENT};host="a\",for=6.6.6.6"', CLIENT),
        (f'for="6.6.6.6, for={CLIENT}', CLIENT),
        (rf'x="\, for={CLIENT};host="a\""', CLIENT),
        ("", NEAR),
        (f"x-for={CLIENT}", NEAR),
        (f"for={CLIENT}=5", NEAR),
    ],
)
def test_forwarded_is_read_from_the_right(header, client):
    assert Proxies(TRUSTED, "Forwarded").client(NEAR, header) == client


QUOTED = st.text().map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')


@given(st.text(), QUOTED, IPV4.filter(lambda a: not a.startswith("10.")), st.booleans())
def test_a_client_cannot_spoof_its_address_in_forwarded(spoofed, host, client, first):
    pairs = [f"for={client}", f"host={host}"]
    element = ";".join(pairs if first else reversed(pairs))
    assert Proxies(TRUSTED, "forwarded").client(NEAR, f"{spoofed}, {element}") == client
    assert Proxies(TRUSTED, "forwarded").client(NEAR, f"{spoofed}, {element}, for={FAR}") == client


def test_a_long_header_of_quotes_is_parsed_in_linear_time():
    header = '\\"' * 30_000 + f",for={CLIENT}"
    assert Proxies(TRUSTED, "forwarded").client(NEAR, header) == CLIENT
    assert Proxies(TRUSTED, "forwarded").client(NEAR, "for=" + '\\"' * 30_000) == NEAR
