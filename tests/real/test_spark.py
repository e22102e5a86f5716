"""Reports by way of a real Spark cluster: the same bytes as without."""

from __future__ import annotations

import gzip
import lzma
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from .spark import SparkCluster

REAL_LOGS = Path(__file__).parents[2].parent / "shared" / "data" / "logs"
PATIENCE = 300
pytestmark = pytest.mark.timeout(2 * PATIENCE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    started = SparkCluster()
    yield started
    started.stop()


def _lines(name: str) -> bytes:
    path = REAL_LOGS / f"{name}.log.xz"
    if not path.exists():
        pytest.skip(f"{path} is not here: real logs are kept outside the repository")
    return lzma.decompress(path.read_bytes())


def _report(cluster: SparkCluster, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hedgerow", "report", *map(str, arguments)],
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def _same(cluster: SparkCluster, folder: Path, *logs: Path) -> None:
    """Both engines make the same of *logs*."""
    asked = cluster.executors()
    for engine in (["duckdb"], ["spark", "--master", cluster.url]):
        done = _report(cluster, *logs, "--json", folder / f"{engine[0]}.json", "--engine", *engine)
        assert done.returncode == 0, done.stderr
    assert cluster.executors() - asked == len(cluster.processes) - 1, "not all workers were asked"
    assert (folder / "spark.json").read_bytes() == (folder / "duckdb.json").read_bytes()


def test_real_logs_give_the_same_report(cluster: SparkCluster, tmp_path: Path) -> None:
    french, other = _lines("french-site_2009-03_2009-04"), _lines("semicomplete_elastic-apache-10k_2015")
    middle = french.index(b"\n", len(french) // 2) + 1
    logs = [tmp_path / name for name in ("first.log", "second.log.gz", "other.log")]
    logs[0].write_bytes(french[:middle])
    logs[1].write_bytes(gzip.compress(french[middle:]))
    logs[2].write_bytes(other)
    _same(cluster, tmp_path, *reversed(logs))


def test_pieces_of_a_file_are_numbered_as_one(cluster: SparkCluster, tmp_path: Path) -> None:
    """Sources, user agents and shapes are in the second piece that are not in the first; some lines are odd or bad."""
    agent = "Mozilla/5.0 " + "x" * 400
    with (tmp_path / "large.log").open("w") as log:
        for k in range(80_000):
            client = f"10.0.{k % 7}.{k % 250}" if k % 5 else f"2001:db8:{k // 1000:x}::{k % 9:x}"
            quoted = f'\\"{k // 20_000}\\"' if k % 11 == 0 else str(k // 10_000)
            stamp = f"{k // 3600:02}:{k // 60 % 60:02}:{k % 60:02}"
            path = f"/part{k // 9000}/{k % 600}.html"
            log.write(
                f'{client} - - [10/Oct/2020:{stamp} +0000] "GET {path} HTTP/1.1" 200 10 '
                f'"http://site.example/list?page={k % 30}" "{agent} {quoted}"\n'
            )
            if k % 10_000 == 0:
                log.write(f"no line {k}\n")
    assert (tmp_path / "large.log").stat().st_size > 1 << 25
    _same(cluster, tmp_path, tmp_path / "large.log")


def test_what_cannot_be_is_one_line(cluster: SparkCluster, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text('10.0.0.1 - - [10/Oct/2020:13:55:36 +0000] "GET / HTTP/1.1" 200 10 "-" "x"\n')
    done = _report(cluster, log, "--engine", "spark", "--master", "nowhere")
    assert done.returncode == 2
    assert done.stderr == "--master is such as spark://host:7077, local[2], yarn or k8s://host; not 'nowhere'\n"
