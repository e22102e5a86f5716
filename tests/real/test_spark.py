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

from datasets import DATA
from report.logs import site_log

from .spark import PATIENCE, SparkCluster

pytestmark = pytest.mark.timeout(2 * PATIENCE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    started = SparkCluster()
    yield started
    started.stop()


def _report(environment: dict[str, str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hedgerow", "report", *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def _real_logs(folder: Path) -> list[Path]:
    """Two logs of two sites, the first in two files, one of them packed; none where they are not here."""
    paths = [
        DATA / "logs" / f"{name}.log.xz"
        for name in ("french-site_2009-03_2009-04", "semicomplete_elastic-apache-10k_2015")
    ]
    if not all(path.is_file() for path in paths):
        return []
    french, other = (lzma.decompress(path.read_bytes()) for path in paths)
    middle = french.index(b"\n", len(french) // 2) + 1
    logs = [folder / name for name in ("first.log", "second.log.gz", "other.log")]
    logs[0].write_bytes(french[:middle])
    logs[1].write_bytes(gzip.compress(french[middle:]))
    logs[2].write_bytes(other)
    return logs


def test_it_gives_the_same_report_and_asks_all_workers(cluster: SparkCluster, tmp_path: Path) -> None:
    """One made log, and real ones where they are kept beside the repository: all in one report, by account."""
    made = tmp_path / "made.log"
    made.write_text(site_log().replace("198.51.100.1 - - [", "198.51.100.1 - bulk ["), "latin-1")
    logs = [made, *_real_logs(tmp_path)]
    for engine in (["local"], ["spark", "--master", cluster.url]):
        out = ["--json", tmp_path / f"{engine[0]}.json", "--by", "account"]
        done = _report(cluster.environment, *logs, *out, "--engine", *engine)
        assert done.returncode == 0, done.stderr
    assert cluster.executors() == len(cluster.processes) - 1, "not all workers were asked"
    assert (tmp_path / "spark.json").read_bytes() == (tmp_path / "local.json").read_bytes()
    assert b'"account:bulk"' in (tmp_path / "spark.json").read_bytes()
