"""One Spark session for the whole run; everything else is made by the tests themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The JVMs of tests live for seconds: compile quickly rather than well, and leave the cores to Python.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from weir.runtime.session import local_session

    session = local_session(cores=2, app="weir tests")
    yield session
    session.stop()
