"""What Spark's parser rejects is never accepted: texts near to queries are given to both."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.generators.mutations import mutated
from tests.sql.golden import FIXTURES, blocks
from tests.sql.market import CATALOG, SETTINGS
from weir.errors import RegisterError
from weir.sql.lower import lower
from weir.sql.parse import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TEXTS = 200_000 if os.environ.get("WEIR_SOAK") else 6_000
SQL = Path(__file__).parents[1] / "sql"
LANGUAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
# Spark's SQL has no windows of streams, no ASOF joins, and no parameters in intervals.
_OWN = re.compile(r"\bBEGIN\b.*|\[\s*(?:RANGE|ROWS|BEGIN)[^]]*\]|\bASOF\b", re.IGNORECASE | re.DOTALL)


def corpus() -> list[str]:
    texts = [
        sql for block in re.findall(r"```sql\n(.*?)```", LANGUAGE, re.DOTALL) for sql in re.split(r";[^\n]*\n", block)
    ]
    texts += [sql for file in (SQL / "bad_input.txt", *sorted(FIXTURES.glob("*.txt"))) for sql, _ in blocks(file)]
    plain = [re.sub(r"INTERVAL :\w+", "INTERVAL 5", _OWN.sub("", text)).strip() for text in texts]
    return [text for text in plain if len(text) > 10 and text.isascii()]


def accepted(text: str) -> bool:
    try:
        lower(parse(text, SETTINGS), CATALOG)
    except RegisterError:
        return False
    return True


@pytest.mark.parametrize("seed", [1, pytest.param(None, marks=pytest.mark.soak)], ids=["known", "any"])
def test_what_spark_rejects_is_rejected(spark: SparkSession, seed: int | None) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import ParseException

    jvm_session = spark._jsparkSession
    assert jvm_session is not None
    parser = jvm_session.sessionState().sqlParser()
    texts = corpus()
    assert len(texts) > 100
    seed = random.randrange(2**32) if seed is None else seed
    rng = random.Random(seed)
    both, wrong = 0, []
    for _ in range(TEXTS):
        text = mutated(rng.choice(texts), rng, texts)
        if not accepted(text) or _OWN.search(text):
            continue
        try:
            parser.parsePlan(text)
            both += 1
        except (Py4JJavaError, ParseException) as e:
            wrong.append((text, str(e)[:200]))
    assert not wrong, f"seed {seed}: {wrong[:5]}"
    assert both > TEXTS // 100
