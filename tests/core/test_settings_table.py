"""The base of settings tables: unknown names are refused, and numbers must be finite."""

from __future__ import annotations

import math

import msgspec
import pytest

from hedgerow.core.settings_table import Table, positive_faults


class Sample(Table, frozen=True):
    seconds: float = 1.0


def test_a_table_has_no_faults_of_its_own_and_no_unknown_fields():
    assert list(Sample().faults()) == []
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"minutes": 1.0}, Sample)


@pytest.mark.parametrize(
    ("value", "faulty"), [(0.001, False), (0.0, True), (-1.0, True), (math.inf, True), (math.nan, True)]
)
def test_only_numbers_above_zero_are_positive(value, faulty):
    faults = list(positive_faults(Sample(value), "seconds"))
    assert faults == ([("seconds", f"must be more than 0, is {value}")] if faulty else [])
