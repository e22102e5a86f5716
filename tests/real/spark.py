"""A Spark cluster of the tests' own: a master and two workers on free ports of this machine, stopped by their ids."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark

from attached import attached

from .conftest import missing
from .servers import free_port

PATIENCE = 600.0
WORKERS = 2
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""They live for a minute: it does not pay to compile them well."""


class SparkCluster:
    """Each worker has one core. The classes are started as they are: Spark's own scripts would leave them behind."""

    def __init__(self) -> None:
        java = shutil.which("java")
        if java is None:
            missing("java")
        assert java is not None
        self._java = java
        self._folder = tempfile.TemporaryDirectory()
        quick = " ".join(_QUICK)
        (Path(self._folder.name) / "spark-defaults.conf").write_text(
            f"spark.driver.defaultJavaOptions {quick}\nspark.executor.defaultJavaOptions {quick}\n"
        )
        self.port = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []
        try:
            self._start("master.Master", "--port", str(self.port), "--webui-port", str(free_port()))
            self._wait_for("I have been elected leader", 1)
            for number in range(WORKERS):
                work = Path(self._folder.name) / f"work-{number}"
                limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(work)]
                self._start("worker.Worker", *limits, "--webui-port", str(free_port()), self.url)
            self._wait_for("Registering worker", WORKERS)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return Path(self._folder.name) / "spark.log"

    @property
    def environment(self) -> dict[str, str]:
        """Of the cluster and of whoever talks to it."""
        source = str(Path(__file__).parents[2] / "src")
        found = {"PYTHONPATH": source, "PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": self._folder.name}
        return os.environ | found | {"SPARK_LOCAL_IP": "127.0.0.1"}

    def executors(self) -> int:
        """How many processes the workers have started for those who asked."""
        return self.log.read_text("utf-8", "replace").count("Asked to launch executor")

    def _start(self, name: str, *options: str) -> None:
        home = Path(pyspark.__file__).parent
        self._say_what_to_log()
        # What Spark's own scripts find out, and what they say to Java 17.
        scala = next((home / "jars").glob("spark-core_*.jar")).name.split("_")[1].partition("-")[0]
        opened = ["java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util", "java.util.concurrent"]
        opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in [*opened, "sun.nio.ch"]]
        command = [
            self._java,
            "-Xmx256m",
            *_QUICK,
            "-Dspark.master.rest.enabled=false",
            *opens,
            "-cp",
            f"{self._folder.name}:{home / 'jars'}/*",
            f"org.apache.spark.deploy.{name}",
        ]
        with self.log.open("ab") as out:
            self.processes.append(
                subprocess.Popen(
                    attached([*command, "--host", "127.0.0.1", *options]),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=self._folder.name,
                    env=self.environment | {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": scala},
                )
            )

    def _say_what_to_log(self) -> None:
        """What the tests look for."""
        (Path(self._folder.name) / "log4j2.properties").write_text(
            "rootLogger.level = info\nrootLogger.appenderRef.console.ref = console\n"
            "appender.console.type = Console\nappender.console.name = console\nappender.console.target = SYSTEM_ERR\n"
            "appender.console.layout.type = PatternLayout\nappender.console.layout.pattern = %d %p %c: %m%n\n"
        )

    def _wait_for(self, words: str, times: int) -> None:
        end = time.monotonic() + PATIENCE
        while self.log.read_text("utf-8", "replace").count(words) < times:
            assert all(process.poll() is None for process in self.processes), self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(PATIENCE)
        self._folder.cleanup()
