"""Shell completion, in the shells themselves."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from real.servers import HEDGEROW, clean_environment

FOLDER = str(HEDGEROW.parent)


def environment(home: Path) -> dict[str, str]:
    own = {
        "HOME": str(home),
        "PATH": f"{FOLDER}:{os.environ['PATH']}",
        "TERM": "dumb",
        "PS1": "> ",
        "XDG_CONFIG_HOME": str(home),
    }
    return clean_environment(**own)


def script(shell: str) -> str:
    done = subprocess.run([HEDGEROW, "completion", shell], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def type_into(command: list[str], home: Path, typed: list[str], expected: str) -> str:
    """Return what a shell in a terminal shows after *typed*, until it shows *expected*."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(home)
        os.execve(command[0], command, environment(home))
    shown = b""
    try:
        for text in typed:
            time.sleep(0.5)
            os.write(terminal, text.encode())
        end = time.monotonic() + 60
        while expected.encode() not in shown and time.monotonic() < end:
            if select.select([terminal], [], [], 0.5)[0]:
                shown += os.read(terminal, 65_536)
    except OSError:
        pass
    finally:
        os.close(terminal)
        os.kill(process, 9)
        os.waitpid(process, 0)
    return shown.decode("utf-8", "replace")


def test_bash_completes_commands_options_and_values(tmp_path):
    """The terminal repeats what was typed; the rest of the words can only come from the completion."""
    (tmp_path / "completion.bash").write_text(script("bash"))
    bash = shutil.which("bash")
    assert bash
    shell = [bash, "--norc", "--noprofile", "-i"]
    load = "source ./completion.bash\n"
    for typed, expected in (
        ("hedgerow vis\t", "hedgerow visitors"),
        ("hedgerow visitors forgi\t", "hedgerow visitors forgive"),
        ("hedgerow visitors show --dir\t", "hedgerow visitors show --directory"),
        ("hedgerow lists add bla\t", "hedgerow lists add black"),
    ):
        assert expected in type_into(shell, tmp_path, [load, typed], expected), typed


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_a_command(shell, tmp_path):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is missing")
    if shell == "fish":
        (tmp_path / "fish" / "completions").mkdir(parents=True)
        (tmp_path / "fish" / "completions" / "hedgerow.fish").write_text(script("fish"))
        done = subprocess.run(
            [program, "-c", "complete -C 'hedgerow visitors forgi'"], capture_output=True, text=True, timeout=60,
            env=environment(tmp_path), cwd=tmp_path, check=True,
        )  # fmt: skip
        assert done.stdout.split()[0] == "forgive"
        return
    (tmp_path / "_hedgerow").write_text(script("zsh"))
    load = "fpath=($PWD $fpath); autoload -U compinit; compinit -u; source ./_hedgerow\n"
    shown = type_into([program, "-f", "-i"], tmp_path, [load, "hedgerow visitors forgi\t"], "forgive")
    assert "forgive" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_names_the_command_and_nothing_of_this_machine(shell):
    text = script(shell)
    assert "hedgerow" in text
    assert str(Path(sys.executable).parent) not in text


def test_an_unknown_shell_is_wrong_use():
    done = subprocess.run([HEDGEROW, "completion", "tcsh"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "bash" in done.stderr
