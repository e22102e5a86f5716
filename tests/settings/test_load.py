"""
From a file and the environment to settings, or to every fault at once with its line.

The samples in `bad/` say in comments which faults they have: `# fault: ` and the sentence, on the line that is to
blame; in a file that is no TOML at all the comment names the line.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import SettingsError
from hedgerow.settings import Settings, load_settings, read_settings
from property_tests import examples

HERE = Path(__file__).parent
GOOD, BAD = sorted((HERE / "good").glob("*.toml")), sorted((HERE / "bad").glob("*.toml"))


def faults(text: str, **environment: str) -> list[str]:
    with pytest.raises(SettingsError) as error:
        read_settings(text, name="x.toml", environment=environment)
    assert "\n" not in str(error.value)
    return list(error.value.faults)


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good_files_have_no_faults(path):
    assert isinstance(load_settings(path, environment={}), Settings)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_bad_files_name_every_fault_with_its_line(path):
    expected = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for fault in re.findall(r"# fault: (.*?)(?= # fault: |$)", line):
            at = re.match(r"(\d+): ", fault)
            expected.append(f"{path}:{fault}" if at else f"{path}:{number}: {fault}")
    assert expected
    with pytest.raises(SettingsError) as error:
        load_settings(path, environment={})
    assert sorted(error.value.faults) == sorted(expected)


def test_the_complete_file_sets_every_setting():
    """Otherwise the sample would not cover every setting."""
    settings, default = load_settings(HERE / "good" / "everything.toml", environment={}), Settings()
    for table in msgspec.structs.fields(Settings):
        one, other = getattr(settings, table.name), getattr(default, table.name)
        if not isinstance(one, msgspec.Struct):
            assert one != other, table.name
            continue
        for field in msgspec.structs.fields(one):
            assert getattr(one, field.name) != getattr(other, field.name), f"{table.name}.{field.name}"


def test_different_toml_spellings_give_the_same_settings():
    settings = load_settings(HERE / "good" / "written_otherwise.toml", environment={})
    assert settings.density.block_for == 60.0
    assert settings.ledger.enabled is False
    assert settings.identity.strikes == 5
    assert settings.identity.trusted_proxies == ("10.0.0.0/8",)
    assert settings.marker.prefix == "/t-"


def test_an_empty_file_gives_the_defaults():
    assert load_settings(None, environment={}) == read_settings("", environment={}) == Settings()


# ---- Files


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read: No such file or directory"):
        load_settings(tmp_path / "x.toml", environment={})
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load_settings(tmp_path, environment={})


def test_a_file_that_is_not_utf_8_is_reported(tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b"observe = true\n[responses]\nsite = 'caf\xe9'\n")
    with pytest.raises(SettingsError) as error:
        load_settings(path, environment={})
    assert error.value.faults == (f"{path}:3: is not UTF-8",)


def test_byte_order_mark_and_crlf_are_accepted(tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xef\xbb\xbfobserve = true\r\n[density]\r\nblock_for = 5\r\n")
    assert load_settings(path, environment={}).density.block_for == 5.0
    path.write_bytes(b"\xef\xbb\xbf\r\n[density]\r\nblock_for = 'x'\r\n")
    with pytest.raises(SettingsError, match=r":3: density\.block_for"):
        load_settings(path, environment={})


def test_unusual_line_separators_do_not_count_as_lines():
    assert faults("# a\x85b\u2028c\n[density]\nblock_for = 0\n") == [
        "x.toml:3: density.block_for: must be more than 0, is 0.0"
    ]


@pytest.mark.parametrize(
    ("text", "line"), [("a = ", 1), ("\n\n[", 3), ("a = [1,\n2", 2), ("a = 'x\n", 1), ("\n= 5\n", 2)]
)
def test_invalid_toml_is_reported_with_its_line(text, line):
    (fault,) = faults(text)
    assert fault.startswith(f"x.toml:{line}: ")
    assert "(at" not in fault


def test_deeply_nested_toml_is_reported():
    assert faults("a = " + "[" * 100_000) == ["x.toml: is nested too deeply"]


# ---- Environment


@pytest.mark.parametrize(
    ("name", "value", "table", "field", "expected"),
    [
        ("HEDGEROW__DENSITY__BLOCK_FOR", "600", "density", "block_for", 600.0),
        ("HEDGEROW__density__Block_For", "600", "density", "block_for", 600.0),
        ("HEDGEROW__TRAPS__ENABLED", "false", "traps", "enabled", False),
        ("HEDGEROW__MARKER__PREFIX", "/x-", "marker", "prefix", "/x-"),
        ("HEDGEROW__MARKER__PREFIX", "'/x-'", "marker", "prefix", "/x-"),
        ("HEDGEROW__RESPONSES__SITE", "Hecken = Zäune", "responses", "site", "Hecken = Zäune"),
        ("HEDGEROW__RESPONSES__SITE", "", "responses", "site", ""),
        ("HEDGEROW__IDENTITY__TRUSTED_PROXIES", '["10.0.0.0/8"]', "identity", "trusted_proxies", ("10.0.0.0/8",)),
    ],
)
def test_the_environment_takes_precedence(name, value, table, field, expected):
    file = "[density]\nblock_for = 5\n[marker]\nprefix = '/f-'\n"
    settings = read_settings(file, environment={name: value, "OTHER": "x", "HEDGEROW_X": "y"})
    assert getattr(getattr(settings, table), field) == expected


def test_the_environment_can_set_top_level_values_and_lists_of_tables():
    environment = {"HEDGEROW__OBSERVE": "true", "HEDGEROW__DENSITY__WINDOWS": "[{count = 5, seconds = 1}]"}
    settings = read_settings("", environment=environment)
    assert settings.observe
    assert [window.count for window in settings.density.windows] == [5]


def test_a_fault_in_the_environment_names_the_variable():
    found = faults(
        "density = 5\n[proxy]\nconnections = 0\n",
        HEDGEROW__TRAPS__EVERY="x", HEDGEROW__TRAPS__EVRY="1", HEDGEROW__DENSITY__RENEW="true", HEDGEROW__X="1",
        HEDGEROW__OBSERVE__X="1", HEDGEROW__="1", HEDGEROW__IDENTITY__BOTS="[{name = 'a'}]",
    )  # fmt: skip
    assert sorted(found) == sorted([
        "HEDGEROW__DENSITY__RENEW: is not a setting",
        'HEDGEROW__TRAPS__EVERY: must be a whole number, is "x"',
        "HEDGEROW__TRAPS__EVRY: is not a setting; did you mean every?",
        "HEDGEROW__X: is not a setting",
        "HEDGEROW__OBSERVE__X: is not a setting",
        "HEDGEROW__: is not a setting",
        "HEDGEROW__IDENTITY__BOTS: needs networks",
        "x.toml:1: density: must be a table, is 5",
        "x.toml:3: proxy.connections: must be more than 0, is 0",
    ])  # fmt: skip


@given(st.dictionaries(st.text(st.characters(exclude_characters="\0="), max_size=20), st.text(max_size=30)))
def test_arbitrary_environments_are_handled_without_an_error(environment):
    faults: tuple[str, ...] = ()
    try:
        read_settings("", environment={f"HEDGEROW__{name}": value for name, value in environment.items()})
    except SettingsError as error:
        faults = error.faults
    assert all(fault.startswith("HEDGEROW__") for fault in faults)


NAMES = st.sampled_from(["proxy", "density", "windows", "listen", "count", "observe", "identity", "bots", "x"])
VALUES = st.sampled_from(
    ["1", "-1", "true", "'x'", "[]", "[1]", "{}", "{count = 1}", "[{}]", "nan", "1979-05-27", "1e400"]
)
LINES = st.one_of(
    st.tuples(NAMES, VALUES).map(" = ".join),
    NAMES.map(lambda name: f"[{name}]"),
    st.tuples(NAMES, NAMES).map(lambda names: f"[[{names[0]}.{names[1]}]]"),
)


@given(st.one_of(st.text(), st.lists(LINES).map("\n".join)))
@examples(300)
def test_arbitrary_text_gives_settings_or_faults(text):
    faults: tuple[str, ...] = ()
    settings = None
    try:
        settings = read_settings(text, environment={})
    except SettingsError as error:
        faults = error.faults
    assert bool(faults) == (settings is None)
    assert all(fault.startswith("hedgerow.toml") and "\n" not in fault for fault in faults)
