"""The handbook can be built, its links lead somewhere, its commands and settings exist, and its sentences are plain."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import textstat
import typer
from typer.main import get_command, get_group

from hedgerow.cli.main import COMMANDS, join_observe
from hedgerow.settings import read_settings

HERE = Path(__file__).parents[2]
PAGES = sorted([*HERE.glob("*.md"), *(HERE / "docs").rglob("*.md")])
HARDEST_GRADE = 10
_PLACEHOLDERS = frozenset({"...", "…"})
_OPERATORS = frozenset({"|", ">", "<", "&&", "&", ";", "2>"})


def name_of(path: Path) -> str:
    return str(path.relative_to(HERE))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The names by which headings can be linked to."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


def links(path: Path) -> list[str]:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_to_a_file_and_a_heading(path):
    for link in links(path):
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{link}: there is no such file"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link}: there is no such heading"


def commands(text: str) -> list[list[str]]:
    """The arguments of each `hedgerow` command in the shell examples of *text*."""
    found = []
    for block in blocks(text, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while words and (re.match(r"[A-Z_]+=", words[0]) or words[0] in {"sudo", "uvx"}):
                words = words[1:]
            if words and words[0] == "hedgerow":
                ends = (index for index, word in enumerate(words) if word in _OPERATORS)
                found.append(words[1 : next(ends, None)])
    return found


def parse(arguments: list[str]) -> None:
    """Parse *arguments* as `hedgerow` would, up to the values: files of an example need not exist."""
    name, *rest = join_observe([word for word in arguments if word not in _PLACEHOLDERS])
    module, _, attribute = COMMANDS[name][0].partition(":")
    loaded = getattr(import_module(f"hedgerow.cli.{module}"), attribute)
    if isinstance(loaded, typer.Typer):
        command = get_group(loaded)
        if rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, f"hedgerow {name} has no command {rest[0]}"
            command, rest = command.commands[rest[0]], rest[1:]
    else:
        single = typer.Typer(add_completion=False)
        single.command(name)(loaded)
        command = get_command(single)
    context = type(command).context_class(command, info_name=name)
    command.make_parser(context).parse_args(args=list(rest))


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_commands_exist_with_their_options(path):
    for arguments in commands(path.read_text()):
        parse(arguments)


def test_an_unknown_option_in_an_example_is_noticed():
    """So the test above can fail."""
    with pytest.raises(Exception, match="No such option"):
        parse(["lists", "export", "--formatt", "json"])


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_settings_in_examples_are_valid(path):
    for block in blocks(path.read_text(), "toml"):
        if not {"project", "tool"} & set(tomllib.loads(block)):
            read_settings(block, name=name_of(path), environment={})


def prose(text: str) -> str:
    """Sentences alone: no code, tables, headings or addresses. Each item of a list ends a sentence."""
    text = re.sub(r"^```.*?^```|<!--.*?-->|^\|.*?$|^#+ .*?$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "name", text).replace("*", "")
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:-|\d+\.) )", text)
    items = [re.sub(r"^(?:-|\d+\.) ", "", " ".join(each.split())) for each in paragraphs]
    return "\n".join(each if each[-1] in ".?!" else f"{each}." for each in items if each)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_pages_can_be_read_without_effort(path):
    """By the Flesch-Kincaid grade: years of school."""
    assert textstat.flesch_kincaid_grade(prose(path.read_text())) <= HARDEST_GRADE


def test_a_page_that_is_hard_to_read_is_noticed():
    sentence = "Notwithstanding considerable methodological heterogeneity, comprehensive characterisations of "
    assert textstat.flesch_kincaid_grade(prose(sentence * 4)) > HARDEST_GRADE


def test_the_handbook_is_built_without_a_warning(tmp_path):
    """Each page is in its table of contents, or this fails."""
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going"]
    built = subprocess.run(
        [*sphinx, "-d", tmp_path / "trees", "docs", tmp_path / "html"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (built.returncode, built.stderr) == (0, "")
    pages = [*(tmp_path / "html").rglob("*.html")]
    outside = [
        (page.name, address)
        for page in pages
        for address in re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"', page.read_text())
    ]
    assert outside == [], "a page of the handbook loads something from another host"
