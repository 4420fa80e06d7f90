"""A plan under way: tuples come, time passes, and the result can be read at any moment.

    execution = Execution(plan, "UPA", Parameters(partitions=50))
    execution.push(times, sources, rows)
    execution.advance(time)
    execution.rows()

Time never goes back. The result is a bag of tuples (`rows`), or for a group-by one row a group (`groups`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weir.operators import layout
from weir.operators.buffers import cut_anew
from weir.operators.engine import run
from weir.operators.layout import FOREVER, NONE, Memory
from weir.operators.physical import Kind, Parameters, PhysicalPlan, build
from weir.operators.plans import Grouping, PlanNode

Int64s = npt.NDArray[np.int64]
_LONG_AGO = -(1 << 61)


def with_more_partitions(memory: Memory) -> Memory:
    """The same with four times the partitions for the buffer that asked, at the end of all lists."""
    b = int(memory.state[layout.STRAINED])
    first, count, span = (int(memory.buffers[b, column]) for column in (layout.LIST, layout.LISTS, layout.SPAN))
    shorter = -(-span // 4)
    lists = -(-(count - 1) * span // shorter) + 1
    memory.buffers[b, layout.LIST] = len(memory.lists)
    memory.buffers[b, layout.LISTS], memory.buffers[b, layout.SPAN] = lists, shorter
    memory = memory._replace(lists=np.concatenate((memory.lists, np.full((lists, 2), NONE, np.int64))))
    cut_anew(memory, b, first, count)
    memory.buffers[b, layout.STRAIN] = 0
    memory.state[layout.STRAINED] = NONE
    return memory


_GROW = {
    layout.MORE_SLOTS: layout.with_more_slots,
    layout.MORE_ENTRIES: layout.with_more_entries,
    layout.MORE_RING: layout.with_longer_ring,
    layout.MORE_BUCKETS: layout.with_more_buckets,
    layout.MORE_PARTITIONS: with_more_partitions,
}


def _require_time(time: int) -> None:
    if time >= layout.COUNTED:
        raise ValueError(f"operators: times are below {layout.COUNTED:,}; got {time:,}")


class Counters(NamedTuple):
    """What has been counted since the beginning; none depends on the machine."""

    deltas: int  # that came to nodes with state
    negatives: int  # among them
    shown: int  # tuples that negations let into their results
    premature: int  # of these, taken away before their time
    lost: int  # negative tuples whose tuple was not there: deletions of rows that a table does not have
    walked: int  # tuples looked at in lists and chains


class Execution:
    """One plan, executed in one of three ways."""

    def __init__(
        self, plan: PlanNode, kind: Kind, parameters: Parameters | None = None, *, capacity: int = 1 << 10
    ) -> None:
        self.plan = plan
        self.physical = build(plan, kind, parameters or Parameters())
        self._memory = _memory(self.physical, 1 << max(10, (capacity - 1).bit_length()))

    @property
    def now(self) -> int:
        """The time that has been reached."""
        return int(self._memory.state[layout.NOW])

    def push(
        self,
        times: npt.ArrayLike,
        sources: npt.ArrayLike,
        rows: npt.ArrayLike,
        signs: npt.ArrayLike | None = None,
    ) -> None:
        """Let tuples come one after the other; a sign of −1 takes a row out of a table."""
        at, source = _numbers(times), _numbers(sources)
        values = np.ascontiguousarray(rows, dtype=np.int64)
        sign = np.ones(len(at), np.int64) if signs is None else _numbers(signs)
        if values.ndim != 2 or not len(at) == len(source) == len(values) == len(sign):
            raise ValueError(f"operators: one time, source, sign and row for each tuple; got {len(at)}, {len(source)}")
        widest = max(row[layout.WIDTH] for row in (self.physical.nodes[n] for n in self.physical.leaves))
        if values.shape[1] < widest:
            raise ValueError(f"operators: rows need {widest} attributes; got {values.shape[1]}")
        if len(at) and (at[0] < self.now or bool(np.any(at[1:] < at[:-1]))):
            raise ValueError(f"operators: time never goes back; it is {self.now} and tuples come from {at.min()} on")
        if len(at):
            _require_time(int(at[-1]))
        self._run(at, source, sign, values, _LONG_AGO)

    def advance(self, time: int) -> None:
        """Let time pass without a tuple."""
        if time < self.now:
            raise ValueError(f"operators: time never goes back; it is {self.now}, got {time}")
        _require_time(time)
        none = np.zeros(0, np.int64)
        self._run(none, none, none, np.zeros((0, self.physical.width), np.int64), time)

    def _run(self, times: Int64s, sources: Int64s, signs: Int64s, rows: layout.Table, until: int) -> None:
        self._memory.state[layout.POSITION] = 0
        while (said := int(run(self._memory, times, sources, signs, rows, until))) != layout.DONE:
            self._memory = _GROW[said](self._memory)

    def keep_view_eagerly(self) -> None:
        """From now on let expired results leave the view at once, though `rows` leaves them out anyway."""
        if self.physical.view != NONE:
            self._memory.buffers[self.physical.view, layout.EVERY] = 0
            self._memory.buffers[self.physical.view, layout.DUE] = -FOREVER

    def rows(self) -> Int64s:
        """The result: one row for each tuple, in no particular order."""
        assert not isinstance(self.plan, Grouping), "the result of a group-by is groups"
        slots = self._memory.slots
        about = self.physical.buffers[self.physical.view]
        is_shown = slots[:, layout.BUFFER] == self.physical.view
        if about[layout.ORDER] != layout.UNORDERED:  # else negative tuples have taken out all that is over
            is_shown &= slots[:, layout.EXPIRES] > self.now
        width = about[layout.ARITY]
        return slots[is_shown, layout.ROW : layout.ROW + width]

    def groups(self) -> tuple[Int64s, npt.NDArray[np.float64] | Int64s]:
        """The result of a group-by: the groups (0 where all are one), and the aggregate of each (doubles for avg)."""
        assert isinstance(self.plan, Grouping), "only a group-by has groups"
        entries = self._memory.entries
        mine = entries[entries[:, layout.OWNER] == self.physical.groups]
        keys = mine[:, layout.KEY] if self.plan.by is not None else np.zeros(len(mine), np.int64)
        if self.plan.aggregate == "count":
            return keys, mine[:, layout.COUNT]
        if self.plan.aggregate == "sum":
            return keys, mine[:, layout.MORE]
        if self.plan.aggregate == "avg":
            return keys, mine[:, layout.MORE] / mine[:, layout.COUNT]
        ranked = self._memory.slots[mine[:, layout.MARKED], layout.FLAG]
        return keys, ranked if self.plan.aggregate == "min" else -ranked

    def counters(self) -> Counters:
        """What has been counted since the beginning."""
        places = (layout.DELTAS, layout.NEGATIVES, layout.RESULTS, layout.PREMATURE, layout.LOST, layout.WALKED)
        return Counters(*(int(self._memory.state[place]) for place in places))

    @property
    def stored(self) -> int:
        """How many tuples are stored, in windows, states and the view; of δ*, auxiliary ones too."""
        return int(self._memory.buffers[:, layout.SIZE].sum())

    def explain(self) -> str:
        """What was picked: a line for each node, inputs first."""
        return self.physical.explain()


def _numbers(values: npt.ArrayLike) -> Int64s:
    return np.ascontiguousarray(values, dtype=np.int64)


def _memory(physical: PhysicalPlan, capacity: int) -> Memory:
    """Arrays for a plan that has not begun."""
    n_buffers = len(physical.buffers)
    buffers = np.array(physical.buffers, np.int64).reshape(n_buffers, layout.BUFFER_COLUMNS)
    n_buckets = 1 << 6
    buffers[:, layout.BUCKET] = np.arange(n_buffers) * n_buckets
    buffers[:, layout.MASK] = n_buckets - 1
    state = np.zeros(layout.STATE_PLACES, np.int64)
    state[layout.NOW] = -FOREVER
    state[layout.FREE_SLOTS] = state[layout.FREE_ENTRIES] = capacity
    state[layout.CROWDED] = state[layout.STRAINED] = NONE
    state[layout.PHASE] = len(physical.turns)
    slots = np.zeros((capacity, layout.ROW + physical.width), np.int64)
    entries = np.zeros((capacity, layout.KEY + physical.width), np.int64)
    layout.linked(slots, 0, layout.NEXT, layout.BUFFER)
    layout.linked(entries, 0, layout.LINK, layout.OWNER)
    needs_heap = any(
        node[layout.KIND] == layout.GROUP and node[layout.P2] in (layout.A_MIN, layout.A_MAX) for node in physical.nodes
    )
    return Memory(
        slots=slots,
        heap=np.full((capacity if needs_heap else 0, 3), NONE, np.int64),
        entries=entries,
        lists=np.full((physical.n_lists, 2), NONE, np.int64),
        buckets=np.full(n_buffers * n_buckets, NONE, np.int64),
        buffers=buffers,
        nodes=np.array(physical.nodes, np.int64),
        picks=np.array(physical.picks, np.int64),
        turns=np.array(physical.turns, np.int64),
        leaves=np.array(physical.leaves, np.int64),
        ring=np.zeros((capacity, layout.VALUES + 2 * physical.width), np.int64),
        popped=np.zeros(layout.CHUNK, np.int64),
        state=state,
    )
