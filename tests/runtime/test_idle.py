"""Ticks of an idle job: when they come, when they do not, and that they end with the run. Nothing here sleeps."""

from __future__ import annotations

import queue
import threading

import pytest

from weir.errors import StoreError
from weir.runtime.idle import IdleTicks

LONG_S = 20.0


class Job:
    """A run that is asked whether it is active each time that its ticks have waited in vain."""

    def __init__(self, idle_s: float = 0.001) -> None:
        self.ticks: queue.Queue[int] = queue.Queue()
        self.asked = threading.Semaphore(0)
        self.is_active = True
        self.fails = 0
        self.idle = IdleTicks(idle_s, self.tick, self.ask)

    def tick(self) -> None:
        if self.fails:
            self.fails -= 1
            raise StoreError("the disk is full")
        self.ticks.put(1)

    def ask(self) -> bool:
        self.asked.release()
        return self.is_active

    def waits_in_vain(self, times: int = 5) -> None:
        for _ in range(times):
            assert self.asked.acquire(timeout=LONG_S)

    def ticked(self) -> bool:
        return self.ticks.get(timeout=LONG_S) == 1


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "weir-idle"]


def test_it_ticks_once_until_a_batch_has_begun() -> None:
    job = Job()
    job.idle.start()
    assert job.ticked()
    job.waits_in_vain()
    assert job.ticks.empty()
    job.idle.batch_began()
    job.waits_in_vain(20)
    assert job.ticks.empty(), "a job that works is not idle, however long it takes"
    job.idle.batch_ended()
    assert job.ticked()
    job.idle.close()
    assert threads() == []


def test_a_tick_that_fails_is_tried_again() -> None:
    job = Job()
    job.fails = 3
    job.idle.start()
    assert job.ticked()
    job.idle.close()
    assert job.fails == 0
    assert job.idle.error is None
    job.fails = 10**6
    job.idle.start()
    job.waits_in_vain(10)
    job.idle.close()
    assert job.idle.error == "store: the disk is full"


@pytest.mark.parametrize("how", ["it is not active", "nobody can say"])
def test_it_ends_with_the_run(how: str) -> None:
    job = Job()
    job.is_active = False

    def gone() -> bool:
        raise ConnectionError("Spark has gone")

    idle = job.idle if how == "it is not active" else IdleTicks(0.001, job.tick, gone)
    idle.start()
    thread = idle._thread
    assert thread is not None
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert job.ticks.empty()
    job.is_active = True
    job.idle.start()  # a run that ended by itself may go on
    assert job.ticked()
    job.idle.close()
    idle.close()
    assert threads() == []


@pytest.mark.parametrize("idle_s", [0.0, -1.0, float("nan")])
def test_it_may_be_off(idle_s: float) -> None:
    job = Job(idle_s)
    job.idle.start()
    assert threads() == []
    job.idle.batch_began()
    job.idle.batch_ended()
    job.idle.close()
    assert job.ticks.empty()


def test_a_close_does_not_wait_for_what_never_comes() -> None:
    job = Job(float("inf"))
    job.idle.start()
    assert threads() == ["weir-idle"]
    job.idle.close()
    job.idle.close()
    assert threads() == []
