"""The registry: sequence, names, rules, and that a wrong declaration stops the start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving import settings
from hedgerow.core.decision import PolicyRule
from hedgerow.core.settings_table import Table
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Marker, Visit
from hedgerow.detectors.registry import Registry, registry
from hedgerow.detectors.spec import (
    DetectorContext,
    DetectorSpec,
    EvidenceCode,
    EvidenceGroup,
    ReportRule,
)
from hedgerow.errors import DetectorError
from hedgerow.markers.token import visitor_digest
from hedgerow.settings import Settings

ME = "192.0.2.1"
SIGNS = ("typed-links", "attention", "missing-files", "webdriver", "browser-mismatch", "pointer", "driven")
CODE = EvidenceCode("one", "one-code", 1.0, "Why.", "When.")


def spec(name: str = "one", **fields) -> DetectorSpec:
    given = {"groups": (EvidenceGroup(name, PolicyRule("refuse", 0.0)),), "order": 1, "doc": "A detector.\n\nMore."}
    codes = (EvidenceCode(name, f"{name}-code", 1.0, "Why.", "When."),)
    return DetectorSpec(**{"name": name, "codes": codes, "build": lambda _: lambda *_: (), **given, **fields})


def context(own: Settings, *, access_log: bool = False) -> DetectorContext:
    return DetectorContext(
        own, lambda _: "", True, lambda _: True, lambda _: False, ("GPTBot",), access_log=access_log,
        clears_silently=own.challenge.silent, has_fingerprints=True,
    )  # fmt: skip


def test_the_detectors_in_their_sequence_and_the_groups_of_their_evidence():
    """Users have these names in their ledgers; the sequence is that of evidence in JSON."""
    assert [(spec.name, [group.name for group in spec.groups]) for spec in registry().specs] == [
        ("trap", ["trap", "trap-fetch"]),
        ("programs", ["program", "program-haste", "crawling"]),
        ("robots", ["robots"]),
        ("integrity", ["integrity", "entry"]),
        ("density", ["density", "rate", "rate-slow", "prefetch"]),
        ("rotating", ["rotation"]),
        ("required", ["required"]),
        ("claim", ["claim", "misdirected", "license"]),
        ("typed-links", ["typed-links"]),
        ("attention", ["attention"]),
        ("missing-files", ["missing-files"]),
        ("webdriver", ["webdriver"]),
        ("browser-mismatch", ["browser-mismatch"]),
        ("pointer", ["pointer"]),
        ("driven", ["driven"]),
        ("headers", ["headers", "disguise"]),
        ("clearance", ["clearance"]),
        ("fingerprint", ["fingerprint"]),
        ("containment", ["containment", "containment-scripts", "containment-programs"]),
        ("shared-budget", ["shared-budget"]),
        ("fetched-lists", ["fetched-lists"]),
    ]


def test_the_rules_that_follow_from_the_settings():
    text = "[traps]\nblock_for = 7.0\nresponse = 'detain'\n[density]\nblock_for = 9.0\n"
    assert registry().rules(settings(text)) == {
        "trap": PolicyRule("detain", 7.0),
        "trap-fetch": PolicyRule("refuse", 0.0),
        "program": PolicyRule("refuse", 0.0, records_entry=True),
        "program-haste": PolicyRule("refuse", 0.0, retry_after=10.0, adds=0.1),
        "crawling": PolicyRule("detain", 7.0),
        "density": PolicyRule("refuse", 9.0, challenges_first=True),
        "rate": PolicyRule("refuse", 0.0, retry_after=3.0),
        "rate-slow": PolicyRule("refuse", 0.0, retry_after=20.0),
        "robots": PolicyRule("refuse", 0.0, records_entry=True),
        "prefetch": PolicyRule("refuse", 0.0),
        "integrity": PolicyRule("refuse", 7.0),
        "entry": PolicyRule("refuse", 0.0, records_entry=True),
        "claim": PolicyRule("refuse", 0.0),
        "misdirected": PolicyRule("refuse", 0.0),
        "license": PolicyRule("refuse", 0.0),
        "headers": PolicyRule("refuse", 0.0, steady=True),
        "disguise": PolicyRule("refuse", 0.0),
        "rotation": PolicyRule("challenge", 0.0),
        "required": PolicyRule("challenge", 0.0),
        **dict.fromkeys(SIGNS, PolicyRule("challenge", 0.0)),
        "containment": PolicyRule("challenge", 0.0),
        "containment-scripts": PolicyRule("refuse", 0.0, retry_after=60.0),
        "containment-programs": PolicyRule("refuse", 0.0, retry_after=3600.0),
        "shared-budget": PolicyRule("challenge", 0.0, challenges_first=True, price=5),
        "fetched-lists": PolicyRule("refuse", 0.0, retry_after=60.0),
        "clearance": PolicyRule("challenge", 0.0),
        "fingerprint": PolicyRule("refuse", 0.0, steady=True),
    }


@pytest.mark.parametrize(
    ("text", "missing", "needs"),
    [
        ("", set(), {"day"}),
        ("[containment]\nenabled = false\n", {"containment", "shared-budget", "fetched-lists"}, set()),
        ("[challenge]\nsilent = false\n", {"containment", "shared-budget", "fetched-lists"}, set()),
        ("[containment]\nenabled = true\n", set(), {"day"}),
        ("[containment]\nenabled = true\nabove_rate = 5.0\n", {"shared-budget", "fetched-lists"}, {"day", "site_rate"}),
        ("[containment]\nabove_rate = 5.0\n", {"shared-budget", "fetched-lists"}, {"day", "site_rate"}),
        ("[traps]\nenabled = false\n", {"trap"}, {"day"}),
        ("[headers]\nenabled = false\n", {"headers"}, {"day"}),
        ("[[density.windows]]\ncount = 5\nseconds = 1\nby = 'network'\n", set(), {"day", "network"}),
        (
            "[density]\nenabled = false\n[[density.windows]]\ncount = 5\nseconds = 1\nby = 'network'\n",
            {"density"},
            {"day"},
        ),
    ],
)
def test_what_the_settings_switch_on_and_what_the_state_must_count_for_it(text, missing, needs):
    own = settings(text)
    built = registry().build(context(own))
    on = {one.name for one in registry().specs if one.build(context(own)) is not None}
    assert on == {one.name for one in registry().specs} - missing
    assert len(built.detectors) == len(on)
    assert built.needs == needs


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([spec(), spec(order=2)], "two detectors are called 'one'"),
        ([spec(), spec("two", codes=(CODE,), groups=spec().groups)], "two groups of evidence are called 'one'"),
        (
            [spec(), spec("two", codes=(EvidenceCode("two", "one-code", 1.0, "", ""),))],
            "two evidence codes are called 'one-code'",
        ),
        ([spec(groups=())], "code 'one-code' is in group 'one', which has no rule"),
        ([spec(codes=(EvidenceCode("other", "x", 1.0, "", ""),))], "code 'x' is in group 'other', which has no rule"),
        ([spec(codes=(EvidenceCode("one", "x", 1.0, "Has {n}."),))], "code 'x' must say when it is given"),
        ([spec("suspicion")], "the group 'suspicion' is reserved"),
        ([spec(codes=())], "needs a name and at least one evidence code"),
        ([spec(schema=Table)], "names no settings table for Table"),
        ([spec(schema=Table, table="x"), spec("two", schema=Table, table="x")], "two settings tables are called 'x'"),
    ],
)
def test_a_wrong_declaration_cannot_be_registered(specs, message):
    with pytest.raises(DetectorError, match=message):
        Registry(specs)


def test_several_faults_are_told_at_once():
    with pytest.raises(DetectorError, match=r"reserved; detector 'two'.*no rule"):
        Registry([spec("lists"), spec("two", groups=())])


def test_the_sequence_is_by_order_and_then_by_name_however_they_are_found():
    specs = [spec("b", order=2), spec("c", order=1), spec("a", order=2)]
    for found in (specs, specs[::-1]):
        assert [one.name for one in Registry(found).specs] == ["c", "a", "b"]


def test_a_detector_for_live_visits_alone_does_not_run_on_an_access_log():
    made = Registry([spec(), spec("two", replay=False)])
    assert len(made.build(context(Settings())).detectors) == 2
    assert len(made.build(context(Settings(), access_log=True)).detectors) == 1


def test_a_report_has_the_columns_that_its_detectors_name():
    wrong = Registry([spec(report=lambda _: ReportRule(("feet",), lambda _: ()))])
    with pytest.raises(DetectorError, match="reports have no column 'feet'"):
        list(wrong.report_rules(Settings()))
    assert [one.name for one, _ in registry().report_rules(Settings())] == ["density", "headers"]


# ---- Evidence is declared


_SIGNS = st.lists(
    st.sampled_from([*(code.code for one in registry().specs for code in one.codes), "by-script", "other"]), max_size=6
)
_MARKERS = st.none() | st.builds(
    Marker,
    st.sampled_from(["page", "form", "frame", "trap", "maze"]),
    st.sampled_from([visitor_digest(ME), visitor_digest("x")]),
    st.just(bytes(6)),
    st.just("/"),
)
_VISITS = st.builds(
    Visit,
    st.just(1.8e9),
    st.just(ME),
    st.sampled_from([ME, "clearance:x", "account:ann"]),
    st.just(ME),
    st.just("GET"),
    st.sampled_from(["/", "/item/8", "/item/90", "/about"]),
    kind=st.sampled_from(["page", "call", "asset", "prefetch"]),
    origin=st.sampled_from(["same", "cross", "none", "unknown"]),
    prefetch=st.booleans(),
    marker=_MARKERS,
    tampered=st.booleans(),
    claim=st.sampled_from(["", "GPTBot", "Googlebot"]),
    proof=st.sampled_from(["", "pending", "unprovable", "false", "verified"]),
    anomalies=_SIGNS.map(tuple),
)
_REPLIES = st.builds(
    StateReply,
    st.none(),
    st.lists(st.integers(0, 400), min_size=5, max_size=5).map(tuple),
    today=st.integers(0, 2000),
    entries=st.sampled_from([(), ("/item/7",)]),
)
_EVERYTHING = (
    "[containment]\nenabled = true\n[[density.windows]]\ncount = 3\nseconds = 1\nby = 'network'\n"
    "[[density.windows]]\ncount = 200\nseconds = 1\nby = 'prefix'\n[[density.windows]]\ncount = 200\nseconds = 1\n"
    "[[density.windows]]\ncount = 30\nseconds = 9\nof = 'prefetches'\n[[density.windows]]\ncount = 300\nseconds = 2\n"
)


@given(st.sampled_from(registry().specs), _VISITS, _REPLIES, st.booleans())
def test_a_detector_gives_only_evidence_that_it_declares(one, visit, reply, closed):
    own = settings(_EVERYTHING)
    detect = one.build(msgspec.structs.replace(context(own), is_closed=lambda _: closed))
    declared = {(code.group, code.code): code.weight for code in one.codes}
    for found in detect(visit, reply):
        # It may weigh less than declared where people do the same.
        assert 0 <= found.weight <= declared[found.detector, found.code]
        assert found.text.endswith(".")
        assert "{" not in found.text


def test_no_detector_makes_evidence_but_from_a_declared_code():
    for path in Path(sys.modules["hedgerow.detectors"].__path__[0]).glob("*.py"):
        assert path.name == "spec.py" or "Evidence(" not in path.read_text("utf-8"), path.name


# ---- Files


GOOD = '''"""A toy."""
from hedgerow.core.decision import PolicyRule
from hedgerow.detectors.spec import DetectorSpec, EvidenceCode, EvidenceGroup

CODE = EvidenceCode("toy", "toy-code", 1.0, "Why.", "When.")
DETECTOR = DetectorSpec(
    name="toy", doc=__doc__, order=5, groups=(EvidenceGroup("toy", PolicyRule("refuse", 0.0)),), codes=(CODE,),
    build=lambda _: lambda visit, reply: (),
)
'''


def start(*directories: Path, command: str = "check") -> tuple[int, str]:
    """Start Hedgerow with detectors in these directories."""
    environment = {**os.environ, "HEDGEROW_DETECTORS": os.pathsep.join(map(str, directories))}
    done = subprocess.run(
        [sys.executable, "-m", "hedgerow", command], env=environment, capture_output=True, text=True, timeout=60,
        check=False, cwd=directories[0] if directories[0].is_dir() else None,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("toy.py", GOOD.replace("DETECTOR =", "DETECTORS ="), "toy.py: declares no DETECTOR"),
        ("toy.py", GOOD.replace('EvidenceGroup("toy"', 'EvidenceGroup("game"'), "is in group 'toy', which has no rule"),
        ("toy.py", GOOD.replace('"toy-code"', '"trap"'), "two evidence codes are called 'trap'"),
        ("toy.py", GOOD.replace('name="toy"', 'name="trap"'), "two detectors are called 'trap'"),
        ("toy.py", "import nothing_like_this\n", "toy.py: cannot be loaded: ModuleNotFoundError: No module named"),
        ("toy.py", "def\n", "toy.py: cannot be loaded: SyntaxError"),
        ("trap.py", GOOD, "trap.py: rename this file"),
        ("registry.py", GOOD, "registry.py: rename this file"),
        (
            "toy.py",
            GOOD + "from hedgerow.core.settings_table import Table\nclass Own(Table, frozen=True):\n    x: int = 1\n"
            "import msgspec\nDETECTOR = msgspec.structs.replace(DETECTOR, table='proxy', schema=Own)\n",
            "the settings table 'proxy' cannot be a detector's",
        ),
    ],
)
@pytest.mark.slow
def test_a_wrong_file_stops_the_start_with_one_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    status, err = start(tmp_path)
    assert status == 1
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.slow
def test_a_directory_that_is_missing_stops_the_start(tmp_path):
    status, err = start(tmp_path / "nowhere")
    assert status == 1
    assert "HEDGEROW_DETECTORS: " in err
    assert "is not a directory" in err


@pytest.mark.slow
def test_files_of_several_directories_are_found_and_two_of_one_name_are_not_confused(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}_toy.py").write_text(GOOD.replace("toy", name))
    (tmp_path / "one" / "hedgerow.toml").write_text("observe = true\n")
    assert start(tmp_path / "one", tmp_path / "two") == (0, "")
    (tmp_path / "two" / "one_toy.py").write_text(GOOD)
    status, err = start(tmp_path / "one", tmp_path / "two")
    assert status == 1
    assert "one_toy.py: rename this file" in err
