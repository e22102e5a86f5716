"""The declared bounds of the dependencies are the ones that are tested."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

HERE = Path(__file__).parents[1]
# Hedgerow uses parts of these that they do not document: see the comments in pyproject.toml.
PRIVATE_PARTS = {"captcha", "httptools", "scrapy", "uvicorn", "websockets"}


def declared() -> list[Requirement]:
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    found = [Requirement(text) for text in texts]
    return [one for one in found if canonicalize_name(one.name) != "hedgerow"]


def pinned(name: str) -> dict[str, Version]:
    lines = [line.partition("#")[0].partition(";")[0].strip() for line in (HERE / name).read_text().splitlines()]
    pairs = [line.split("==") for line in lines if line]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def bounds(one: Requirement, operator: str) -> list[Version]:
    return [Version(each.version) for each in one.specifier if each.operator == operator]


@pytest.mark.parametrize("one", declared(), ids=str)
def test_the_lower_bound_of_a_dependency_is_the_version_that_is_tested(one):
    lowest = pinned("requirements-lowest.txt")
    assert bounds(one, ">=") == [lowest.get(canonicalize_name(one.name))], (
        "give it a lower bound in pyproject.toml, and the same version in requirements-lowest.txt"
    )


def test_nothing_else_is_pinned_to_its_lowest_version():
    assert set(pinned("requirements-lowest.txt")) == {canonicalize_name(one.name) for one in declared()}


@pytest.mark.parametrize("one", declared(), ids=str)
def test_the_version_that_developers_use_is_within_the_bounds(one):
    current = pinned("requirements.txt") | pinned("requirements-spark.txt")
    assert one.specifier.contains(current[canonicalize_name(one.name)])


@pytest.mark.parametrize("name", sorted(PRIVATE_PARTS))
def test_a_dependency_whose_private_parts_are_used_has_an_upper_bound(name):
    assert [bounds(one, "<") for one in declared() if one.name == name and not bounds(one, "<")] == []
    assert name in {one.name for one in declared()}
