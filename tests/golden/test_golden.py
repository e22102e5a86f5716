"""
What users see is what it was: help, checks of settings, HTTP traffic, report and replay of a generated log.

The expected files are made by `tools/golden accept`. The large recordings, of all forms and of real logs, are made and
compared by `tools/golden record` and `tools/golden compare`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hedgerow.markers.token import TokenCodecs, visitor_digest
from hedgerow.web.key_file import read_keys

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from goldens import main, sample_log  # noqa: E402 - found by the line above
from goldens.checkout import KEYS, Checkout  # noqa: E402
from goldens.compare import compare, files_of  # noqa: E402

pytestmark = pytest.mark.slow
_FILES = {"help": ("help.txt",), "settings": ("check.txt",), "traffic": ("traffic/",), "sample": ("sample/",)}
"""What each section writes."""
_ADVICE = """
Users see something else than before. If that is not intended, it is a defect. If it is, run

    tools/golden accept

look at `git diff tests/golden/expected`, commit the changed files, and name the change in CHANGELOG.md.
"""


@pytest.mark.parametrize("section", main.SMALL)
def test_what_users_see_has_not_changed(section, tmp_path):
    recorded, expected = tmp_path / "recorded", tmp_path / "expected"
    recorded.mkdir()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    main.SMALL[section](Checkout(Path(sys.executable), scratch), recorded)
    for name in files_of(main.EXPECTED):
        if name.startswith(_FILES[section]):
            (expected / name).parent.mkdir(parents=True, exist_ok=True)
            (expected / name).symlink_to(main.EXPECTED / name)
    differences = list(compare(expected, recorded, lines=60))
    assert not differences, "\n".join([*differences, _ADVICE])


def test_every_expected_file_belongs_to_a_section():
    """Or it would never be compared."""
    known = tuple(name for names in _FILES.values() for name in names)
    assert set(_FILES) == set(main.SMALL)
    assert all(name.startswith(known) for name in files_of(main.EXPECTED))
    assert len(files_of(main.EXPECTED)) > 8


def test_the_links_in_the_generated_log_have_the_keys_of_the_replay():
    """Else the replay would not find the hidden link."""
    codec = TokenCodecs(read_keys(KEYS, "")).of(sample_log.HOST)
    for link, kind in ((sample_log.MARKED_LINK, "page"), (sample_log.HIDDEN_LINK, "trap")):
        marker = codec.unseal(link.removeprefix("/~"))
        assert marker is not None
        assert (marker.kind, marker.issued_to) == (kind, visitor_digest(sample_log.VISITOR))
    replayed = (main.EXPECTED / "sample" / "replay.txt").read_text("utf-8")
    assert sample_log.VISITOR in replayed


def test_a_difference_is_found_and_shown(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "same.txt").write_text("one\n")
    (first / "changed.txt").write_text("a" * 5000 + "old" + "b" * 5000 + "\nkept\n")
    (second / "changed.txt").write_text("a" * 5000 + "new" + "b" * 5000 + "\nkept\n")
    (first / "gone.txt").write_text("gone\n")
    (second / "about.txt").write_text("not compared\n")
    changed, gone = compare(first, second, lines=10)
    assert "aoldb" in changed
    assert "anewb" in changed
    assert len(changed) < 2000
    assert gone == f"only in {first}: gone.txt\n"
    assert not list(compare(first, first, lines=10))
