"""Which tests run beside which: what `tests/conftest.py` says is true."""

from __future__ import annotations

from tests.conftest import HERE, LONGEST, OPERATORS, SPARK, scope_of


def test_what_begins_first_is_there() -> None:
    assert {name for name in LONGEST if not (HERE / name).exists()} == {SPARK, OPERATORS}
    assert len(set(LONGEST)) == len(LONGEST)


def test_whatever_asks_for_the_session_runs_on_one_worker() -> None:
    sweep, types = "tests/answer/test_finish_sweep.py", "tests/spark/test_types.py"
    assert scope_of(f"{sweep}::test_finishes_equal_spark[12000]") == SPARK
    assert scope_of(f"{sweep}::test_finishes_equal_the_oracle[9000]") == "answer/test_finish_sweep.py"
    assert scope_of(f"{types}::test_every_type_comes_back_as_it_was") == SPARK, "it asks for a fixture that asks for it"
    assert scope_of("tests/operators/test_buffers.py::test_a_buffer_is_a_list_of_tuples[x]") == OPERATORS
