"""Bundles of models: which stage judges a session, and that a file with any fault is refused."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import ModelError
from hedgerow.watch.models.bundle import Bundle, encoded, load, load_window, save, shipped
from hedgerow.watch.models.inference import Linear, Scaling
from hedgerow.watch.sessions.path import PREFIXES, PathSession
from hedgerow.watch.sessions.window import MIN_WINDOW, Access, SessionWindow
from property_tests import examples


def test_the_stage_with_the_most_visits_that_fit_is_used():
    bundle = load()
    assert [size for size in range(70) if bundle.has_stage(size)] == list(PREFIXES)
    session = PathSession()
    for number in range(25):
        session.add(number * 1.0, f"/{number}", "/0")
        judged = bundle.judge_session(session)
        assert judged.model == f"boosted-{session.size // 10 * 10}"
    assert judged.identity == "width-first"


def test_before_the_first_stage_everybody_is_a_person():
    session = PathSession()
    session.add(0.0, "/", None)
    assert load().judge_session(session).identity == "person"
    assert load().judge_session(session).probability == 0.0


def test_the_window_bundle_is_used_from_27_visits_on():
    bundle = load_window()
    window = SessionWindow()
    page = Access(0.0, "192.0.2.1", b"s", b"/", None, "absent", b"", "absent", "unknown")
    for number in range(MIN_WINDOW - 1):
        window.add(page._replace(at=number * 0.1))
    assert bundle.judge_session(window).identity == "person"
    window.add(page._replace(at=MIN_WINDOW * 0.1))
    assert bundle.judge_session(window).identity == "suspect"


def test_a_path_bundle_is_refused_for_windows(tmp_path):
    save(load(), tmp_path / "paths.json")
    save(load_window(), tmp_path / "window.json")
    assert load_window(tmp_path / "window.json") == load_window()
    with pytest.raises(ModelError, match="judges paths"):
        load_window(tmp_path / "paths.json")


@pytest.mark.parametrize("name", ["boosted", "pathmarker", "window"])
def test_nearness_is_one_at_the_threshold_and_grows_with_the_score(name):
    for stage in shipped(name).stages:
        even = -stage.intercept / stage.slope
        assert stage.nearness(stage.threshold + 0.1) == 1.0
        assert stage.nearness(even - 0.1) == 0.0
        between = [stage.nearness(even + (stage.threshold - even) * part / 4) for part in range(5)]
        assert between == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0], abs=1e-6)


def test_a_row_of_another_width_is_an_error():
    with pytest.raises(ValueError, match="wants 17 features"):
        load().judge((0.0,) * 6, 60)


def test_a_saved_bundle_loads_unchanged(tmp_path):
    save(load(), tmp_path / "bundle.json")
    assert load(tmp_path / "bundle.json") == load()
    with pytest.raises(ModelError, match="cannot be written"):
        save(load(), tmp_path)
    with pytest.raises(ModelError, match="cannot be read"):
        load(tmp_path / "none.json")


def linear_window():
    """A window bundle as earlier versions trained it, with a linear model."""
    bundle = shipped("window")
    width = len(bundle.features)
    linear = Linear(Scaling((False,) * width, (0.0,) * width, (1.0,) * width), (1.0,) * width, 0.0)
    return msgspec.structs.replace(bundle, stages=(msgspec.structs.replace(bundle.stages[0], model=linear),))


def broken(name, change):
    tree = msgspec.json.decode(encoded(linear_window() if name == "linear" else shipped(name)))
    change(tree)
    return msgspec.json.encode(tree)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("boosted", lambda t: t.update(format="pickle"), "format"),
        ("boosted", lambda t: t.update(features=["x"]), "train it again"),
        ("boosted", lambda t: t.update(stages=[]), "not in order"),
        ("boosted", lambda t: t["stages"].reverse(), "not in order"),
        ("boosted", lambda t: t["stages"][0]["model"].update(roots=[10**6]), "root"),
        ("boosted", lambda t: t["stages"][0]["model"]["left"].__setitem__(0, 0), "nowhere"),
        ("boosted", lambda t: t["stages"][0]["model"]["feature"].__setitem__(0, 99), "feature"),
        ("boosted", lambda t: t["stages"][0]["model"]["value"].pop(), "length"),
        ("boosted", lambda t: t.update(budget=0.0), "budget"),
        ("boosted", lambda t: t["stages"][0]["kinds"]["left"].__setitem__(0, 0), "nowhere"),
        ("boosted", lambda t: t["stages"][0]["kinds"]["kind"].__setitem__(0, 9), "classes"),
        ("boosted", lambda t: t["stages"][0]["kinds"]["kind"].pop(), "length"),
        ("boosted", lambda t: t["stages"][0]["kinds"].pop("type"), "no bundle"),
        ("pathmarker", lambda t: t["stages"][0]["model"].update(gamma=-1.0), "gamma"),
        ("pathmarker", lambda t: t["stages"][0]["model"]["vectors"][0].pop(), "vector"),
        ("pathmarker", lambda t: t["stages"][0]["model"]["coefficients"].pop(), "coefficients"),
        ("pathmarker", lambda t: t["stages"][0]["kinds"]["counts"].pop(), "classes"),
        ("pathmarker", lambda t: t["stages"][0]["kinds"]["names"].__setitem__(0, "x"), "nobody knows"),
        ("linear", lambda t: t["stages"][0]["model"]["weights"].pop(), "weights"),
        ("linear", lambda t: t["stages"][0]["model"]["scaling"]["scales"].__setitem__(0, 0.0), "scale"),
        ("window", lambda t: t["stages"][0]["model"].update(type="exec"), "no bundle"),
    ],
)
def test_an_inconsistent_bundle_is_refused(tmp_path, name, change, said):
    (tmp_path / "bundle.json").write_bytes(broken(name, change))
    with pytest.raises(ModelError, match=said):
        load(tmp_path / "bundle.json")


@given(st.binary(max_size=300))
@examples(50)
def test_arbitrary_bytes_are_refused_as_a_bundle(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("b") / "bundle.json"
    path.write_bytes(data)
    with pytest.raises(ModelError):
        load(path)


def test_infinite_and_undefined_numbers_are_refused():
    bundle = linear_window()
    assert not list(bundle.faults())
    stage = bundle.stages[0]
    model = msgspec.structs.replace(stage.model, offset=float("nan"))
    bad = msgspec.structs.replace(bundle, stages=(msgspec.structs.replace(stage, model=model),))
    assert isinstance(bad, Bundle)
    assert list(bad.faults())


@pytest.mark.slow
def test_loading_a_bundle_does_not_import_scikit_learn():
    code = (
        "import sys; from hedgerow.watch.models.bundle import load;"
        "from hedgerow.watch.sessions.path import PathSession;"
        "load().judge_session(PathSession()); import hedgerow.web.app;"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'sklearn', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
