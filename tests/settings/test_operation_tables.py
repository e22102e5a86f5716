"""Invalid values in the tables for operation are faults."""

from __future__ import annotations

import pytest

from hedgerow.errors import SettingsError
from hedgerow.settings import read_settings


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('certificate = "a"', "tls.key: is needed beside certificate"),
        ('key = "a"', "tls.certificate: is needed beside key"),
        ('redirect = ":80"', "hedgerow.toml:2: tls.redirect: needs a certificate"),
        ('certificate = "a"\nkey = "b"\nredirect = "x"', "hedgerow.toml:4: tls.redirect: 'x' is not HOST:PORT"),
        ('minimum = "1.1"', "hedgerow.toml:2: tls.minimum: must be one of '1.2', '1.3'"),
    ],
)
def test_a_faulty_tls_table_is_one_line(text: str, fault: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_settings(f"[tls]\n{text}\n", environment={})
    assert fault in str(raised.value)
