"""What Spark needs and is not there is said before it is started. With a cluster: `tests/real/test_spark.py`."""

import re
import socket

import pytest

pytest.importorskip("pyspark")

from hedgerow.errors import StoreError
from hedgerow.report.tables.spark_store import SparkStore


@pytest.fixture
def nobody():
    """A port that is taken and at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def java(tmp_path, monkeypatch):
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return program


@pytest.mark.usefixtures("java")
def test_a_master_that_does_not_answer_is_one_line(nobody):
    master = f"spark://127.0.0.1:{nobody}"
    told = f"Spark at {master}: no master answers there: Connection refused; start it, or name another"
    with pytest.raises(StoreError, match=f"^{re.escape(told)}$"):
        SparkStore(master, memory=1_000_000_000)


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("master", ["spark://", "spark://127.0.0.1", "spark://127.0.0.1:x", "spark://127.0.0.1:99999"])
def test_a_master_that_cannot_be_is_one_line(master):
    with pytest.raises(StoreError, match=r"^Spark at [^\n]*: no master answers there: [^\n]*$"):
        SparkStore(master, memory=1_000_000_000)


def test_without_java_is_one_line(java):
    java.unlink()
    with pytest.raises(StoreError, match="install Java 17"):
        SparkStore("local[2]", memory=1_000_000_000)
