"""From a logical plan to one that runs: which edges are signed, and which structure each state buffer gets.

Three executions (UPA, sections 2.3 and 5.4.3):

    NT      windows are stored, every end is a negative tuple, state is reached by key
    DIRECT  tuples carry their expiration, buffers are lists in order of arrival and expire by scans
    UPA     tuples carry their expiration, each buffer has the structure that its input's update pattern allows

Above a negation UPA goes one of two ways: negative tuples are rare, then buffers stay partitions and a negative tuple
looks through the one that its expiration names; or they are frequent, then everything above the negation is as in NT.
The last rows of a stream always end by negative tuples, so everything above such a window is as in NT.

All three have the same key chains where an operator looks tuples up by key (`probes="scan"` takes them from joins that
are not NT, which then look through the other input, as in the paper's cost formulas). Duplicate elimination, negation
and group-by expire what they show eagerly; all else is lazy, once in a share of its tuples' lifetime. Views are lazy
too unless asked otherwise, for whoever reads one leaves out what has expired. A view of a duplicate elimination is
its output state, and the view of a group-by its groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from weir.algebra.update_patterns import UpdatePattern
from weir.operators import layout, plans
from weir.operators.buffers import ORDER_NAMES
from weir.operators.layout import FOREVER, NONE
from weir.operators.patterns import expiration_of
from weir.operators.plans import PlanNode, arity_of, checked, has_last_rows, has_negation, inputs_of, nodes_of, text_of

Kind = Literal["NT", "DIRECT", "UPA"]
KINDS: tuple[Kind, ...] = ("NT", "DIRECT", "UPA")


@dataclass(frozen=True)
class Parameters:
    """What an execution may be told beside the plan."""

    partitions: int | None = (
        None  # of a partitioned buffer; None: a lazy interval's, and more when tuples are walked over
    )
    lazy_share: float = 0.05  # of the lifetime of tuples, between two lazy expirations
    premature_share: float = 0.0  # of the results of negations that are expected to end before their time
    frequent_share: float = 0.1  # from which premature ends are frequent enough for negative tuples
    is_view_eager: bool = False  # whether expired results leave the view at once
    probes: Literal["hash", "scan"] = "hash"  # how joins without negative tuples find partners


@dataclass
class PhysicalPlan:
    """Rows of the arrays of nodes and buffers, as `weir.operators.layout` names their columns."""

    kind: Kind
    parameters: Parameters
    width: int
    nodes: list[list[int]] = field(default_factory=list)
    buffers: list[list[int]] = field(default_factory=list)
    picks: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)
    n_lists: int = 0
    view: int = NONE  # the buffer whose tuples are the result
    groups: int = NONE  # the buffer whose entries are the result
    lines: list[str] = field(default_factory=list)
    has_exact_ends: bool = False  # whether what is above has to know which of equal tuples ends

    def add_node(self, kind: int, plan: PlanNode, signed_in: bool, signed_out: bool) -> int:
        """The number of a new node, without parent, buffers and parameters."""
        row = [NONE] * layout.NODE_COLUMNS
        row[layout.KIND], row[layout.WIDTH], row[layout.PORT] = kind, arity_of(plan), 0
        row[layout.SIGNED_IN], row[layout.SIGNED_OUT] = int(signed_in), int(signed_out)
        self.nodes.append(row)
        return len(self.nodes) - 1

    def add_buffer(self, node: int, order: int, role: int, arity: int, lasts: int, key: tuple[int, int]) -> int:
        """The number of a new buffer; `key` is its first attribute and how many there are, less than 0 for no key."""
        partitions = order in (layout.SORTED, layout.LOOSE)
        is_eager = role not in (layout.FORGET,)
        row = [0] * layout.BUFFER_COLUMNS
        row[layout.ORDER], row[layout.ROLE], row[layout.NODE], row[layout.ARITY] = order, role, node, arity
        count = self.parameters.partitions or _partitions(self.parameters.lazy_share)
        row[layout.LIST], row[layout.LISTS] = self.n_lists, count + 1 if partitions else 1
        row[layout.SPAN] = -(-lasts // count)
        row[layout.STRAIN] = 0 if partitions and self.parameters.partitions is None else layout.FIXED
        row[layout.KEY_AT], row[layout.KEYS] = key
        row[layout.EXACT] = int(order != layout.UNORDERED or self.has_exact_ends)
        row[layout.CLEAN] = row[layout.DUE] = -FOREVER
        row[layout.EVERY] = 0 if is_eager else max(1, int(lasts * self.parameters.lazy_share))
        self.buffers.append(row)
        self.n_lists += row[layout.LISTS]
        if order != layout.UNORDERED:
            self.turns.append(len(self.buffers) - 1)
        return len(self.buffers) - 1

    def order_of(self, below: PlanNode, *, is_signed: bool, is_eager: bool) -> int:
        """The order of a buffer that stores what comes from `below`."""
        if is_signed or isinstance(below, plans.TableRows):
            return layout.UNORDERED
        if self.kind == "DIRECT":
            return layout.ARRIVAL
        if expiration_of(below).pattern <= UpdatePattern.WKS:
            return layout.FIFO
        return layout.SORTED if is_eager else layout.LOOSE

    def explain(self) -> str:
        """A line for each node, inputs first: what it is, what comes from it, and what its state is."""
        return "\n".join(self.lines)


NO_KEY = (0, -1)
_PARTITIONS_MAX = 100  # to begin with


def _partitions(lazy_share: float) -> int:
    """How many partitions a buffer begins with: what is over after a lazy interval is one of them."""
    return min(_PARTITIONS_MAX, max(1, round(1 / lazy_share))) if lazy_share > 0 else _PARTITIONS_MAX


def build(plan: PlanNode, kind: Kind, parameters: Parameters) -> PhysicalPlan:
    """Annotate a plan's edges and pick its structures."""
    checked(plan)
    if (parameters.partitions is not None and parameters.partitions < 1) or parameters.lazy_share < 0:
        raise ValueError(f"operators: at least 1 partition and no negative lazy share; got {parameters}")
    physical = PhysicalPlan(kind, parameters, max(arity_of(node) for node in nodes_of(plan)))
    is_signed = _are_ends_told(physical, (plan,))
    root = _add(physical, plan, is_signed)
    if isinstance(plan, (plans.DuplicateElimination, plans.Grouping)):
        return physical
    view = physical.add_node(layout.VIEW, plan, is_signed, is_signed)
    order = physical.order_of(plan, is_signed=is_signed, is_eager=parameters.is_view_eager)
    key = (0, arity_of(plan)) if is_signed else NO_KEY
    lasts = expiration_of(plan).lasts
    physical.view = physical.add_buffer(view, order, layout.FORGET, arity_of(plan), lasts, key)
    if parameters.is_view_eager:
        physical.buffers[physical.view][layout.EVERY] = 0
    physical.nodes[view][layout.LEFT] = physical.view
    physical.nodes[root][layout.PARENT] = view
    physical.lines.append(f"view: {_state(physical, physical.view)}")
    return physical


def _are_ends_told(physical: PhysicalPlan, below: Sequence[PlanNode]) -> bool:
    """Whether every end of the tuples of these plans is told by a negative tuple."""
    if physical.kind == "NT" or any(map(_joins_last_rows, below)):
        return True
    about = physical.parameters
    is_frequent = about.premature_share >= about.frequent_share
    ends = (has_last_rows(plan) or (is_frequent and has_negation(plan)) for plan in below)
    return physical.kind == "UPA" and any(ends)


def _joins_last_rows(plan: PlanNode) -> bool:
    """Whether there are results that stay as they were made, of a table's rows then, until others come to a stream."""
    joins = (node for node in nodes_of(plan) if isinstance(node, plans.TableJoin) and not node.is_retroactive)
    return any(has_last_rows(node.left) for node in joins)


def _add(physical: PhysicalPlan, plan: PlanNode, signed_out: bool) -> int:
    """Add what is below a node, and the node; its number."""
    signed_in = signed_out
    if isinstance(plan, (plans.DuplicateElimination, plans.Negation, plans.Grouping)):
        # These see each end, so they can tell it.
        signed_in = _are_ends_told(physical, inputs_of(plan))
    # A duplicate elimination tells the tuple that it shows from others, and batches of results belong to one tuple.
    is_above_exact = physical.has_exact_ends
    physical.has_exact_ends |= isinstance(plan, (plans.DuplicateElimination, plans.TableJoin))
    below = [_add(physical, node, signed_in) for node in inputs_of(plan)]
    n = physical.add_node(_kind_of(physical, plan, signed_in), plan, signed_in, signed_out)
    for port, child in enumerate(below):
        physical.nodes[child][layout.PARENT] = n
        physical.nodes[child][layout.PORT] = port
    state = _fill(physical, plan, n, below)
    physical.has_exact_ends = is_above_exact
    how = "every end is told" if signed_out else "ends are known"
    if isinstance(plan, plans.TableRows):
        how = "changes are told"
    pattern = "" if isinstance(plan, plans.TableRows) else f" {expiration_of(plan).pattern.name},"
    physical.lines.append(f"{text_of(plan)}:{pattern} {how}" + (f"; {state}" if state else ""))
    return n


def _kind_of(physical: PhysicalPlan, plan: PlanNode, signed_in: bool) -> int:
    if isinstance(plan, plans.DuplicateElimination):
        is_strict = expiration_of(plan.input).pattern is UpdatePattern.STR
        return layout.DISTINCT_STAR if physical.kind == "UPA" and not (is_strict or signed_in) else layout.DISTINCT_ROWS
    if isinstance(plan, plans.TableJoin):
        return layout.JOIN if plan.is_retroactive else layout.LATER_JOIN
    kinds: dict[type, int] = {
        plans.StreamWindow: layout.WINDOW,
        plans.LastRows: layout.LAST_ROWS,
        plans.LandmarkWindow: layout.LANDMARK,
        plans.TableRows: layout.TABLE,
        plans.Filtered: layout.FILTER,
        plans.Projected: layout.PROJECT,
        plans.MergeUnion: layout.UNION,
        plans.WindowJoin: layout.JOIN,
        plans.Intersection: layout.INTERSECT,
        plans.Grouping: layout.GROUP,
        plans.Negation: layout.NEGATE,
    }
    return kinds[type(plan)]


def _fill(physical: PhysicalPlan, plan: PlanNode, n: int, below: list[int]) -> str:
    """Give a node its parameters and buffers; says what its state is."""
    node = physical.nodes[n]
    if isinstance(plan, plans.LEAVES):
        return _fill_leaf(physical, plan, n)
    if isinstance(plan, plans.Filtered):
        node[layout.P0 :] = [plan.attribute, plan.lo, plan.hi, int(plan.is_inside)]
    elif isinstance(plan, plans.Projected):
        node[layout.P0], node[layout.P1] = len(physical.picks), len(plan.attributes)
        physical.picks += plan.attributes
    elif isinstance(plan, plans.DuplicateElimination):
        return _fill_distinct(physical, plan, n)
    elif isinstance(plan, plans.Grouping):
        return _fill_grouping(physical, plan, n)
    elif isinstance(plan, plans.Negation):
        return _fill_negation(physical, plan, n)
    elif isinstance(plan, (plans.WindowJoin, plans.Intersection, plans.TableJoin)):
        return _fill_join(physical, plan, n, below)
    return ""


def _fill_leaf(
    physical: PhysicalPlan, plan: plans.StreamWindow | plans.LastRows | plans.LandmarkWindow | plans.TableRows, n: int
) -> str:
    node = physical.nodes[n]
    physical.leaves.append(n)
    node[layout.P0] = plan.source
    if isinstance(plan, plans.TableRows):
        return ""
    if isinstance(plan, plans.LandmarkWindow):
        node[layout.P1] = plan.begin
        return "not stored"
    is_counted = isinstance(plan, plans.LastRows)
    node[layout.P1] = plan.count if isinstance(plan, plans.LastRows) else plan.length
    if node[layout.SIGNED_OUT] == 0 and not is_counted:
        return "not stored"
    window = physical.add_buffer(n, layout.FIFO, layout.TELL, plan.arity, expiration_of(plan).lasts, NO_KEY)
    node[layout.LEFT] = window
    return f"stored: {_state(physical, window)}"


def _fill_distinct(physical: PhysicalPlan, plan: plans.DuplicateElimination, n: int) -> str:
    node, arity, lasts = physical.nodes[n], arity_of(plan), expiration_of(plan).lasts
    is_signed = node[layout.SIGNED_IN] == 1
    whole = (0, arity)
    if node[layout.KIND] == layout.DISTINCT_STAR:
        order = layout.SORTED  # even if the input is first in, first out: an auxiliary is older than newer values
        shown = physical.add_buffer(n, order, layout.SHOW_AUXILIARY, arity, lasts, whole)
        node[layout.LEFT] = shown
        node[layout.OUT] = physical.add_buffer(n, layout.UNORDERED, layout.FORGET, 0, lasts, NO_KEY)
        text = f"δ*: output {_state(physical, shown)}, one auxiliary tuple a value"
    else:
        order = physical.order_of(plan.input, is_signed=is_signed, is_eager=False)
        node[layout.LEFT] = physical.add_buffer(n, order, layout.FORGET, arity, lasts, whole)
        order = physical.order_of(plan, is_signed=is_signed, is_eager=True)
        shown = physical.add_buffer(n, order, layout.SHOW_OTHER, arity, lasts, NO_KEY)
        node[layout.OUT] = shown
        text = f"input {_state(physical, node[layout.LEFT])}; output {_state(physical, shown)}"
    physical.view = shown  # it is the result if nothing is above; `build` says otherwise then
    return text


def _fill_grouping(physical: PhysicalPlan, plan: plans.Grouping, n: int) -> str:
    node, arity, lasts = physical.nodes[n], arity_of(plan.input), expiration_of(plan).lasts
    aggregate = layout.AGGREGATES.index(plan.aggregate)
    node[layout.P0 : layout.P3] = [plan.by or 0, plan.attribute, aggregate]
    is_signed = node[layout.SIGNED_IN] == 1
    text = "input not stored"
    if not is_signed or aggregate in (layout.A_MIN, layout.A_MAX):
        order = physical.order_of(plan.input, is_signed=is_signed, is_eager=True)
        key = (0, arity) if is_signed else NO_KEY
        node[layout.LEFT] = physical.add_buffer(n, order, layout.UNGROUP, arity, lasts, key)
        text = f"input {_state(physical, node[layout.LEFT])}"
    key = (plan.by or 0, 0 if plan.by is None else 1)
    node[layout.OUT] = physical.groups = physical.add_buffer(n, layout.UNORDERED, layout.FORGET, 0, lasts, key)
    physical.view = NONE
    return f"{text}; an entry a group"


def _fill_negation(physical: PhysicalPlan, plan: plans.Negation, n: int) -> str:
    node = physical.nodes[n]
    node[layout.P0] = plan.right_on
    is_signed = node[layout.SIGNED_IN] == 1
    order = physical.order_of(plan.left, is_signed=is_signed, is_eager=True)
    lasts = expiration_of(plan.left).lasts
    left = physical.add_buffer(n, order, layout.LEFT_ENDS, arity_of(plan.left), lasts, (plan.left_on, 1))
    node[layout.LEFT] = left
    if is_signed:
        return f"left {_state(physical, left)}; right counted"
    order, lasts = physical.order_of(plan.right, is_signed=False, is_eager=True), expiration_of(plan.right).lasts
    right = physical.add_buffer(n, order, layout.RIGHT_ENDS, arity_of(plan.right), lasts, NO_KEY)
    node[layout.RIGHT] = right
    return f"left {_state(physical, left)}; right {_state(physical, right)}"


def _fill_join(
    physical: PhysicalPlan, plan: plans.WindowJoin | plans.Intersection | plans.TableJoin, n: int, below: list[int]
) -> str:
    node = physical.nodes[n]
    is_signed = node[layout.SIGNED_IN] == 1
    on = (0, 0) if isinstance(plan, plans.Intersection) else (plan.left_on, plan.right_on)
    n_keys = arity_of(plan) if isinstance(plan, plans.Intersection) else 1
    node[layout.P0 :] = [*on, 0, n_keys]
    texts = []
    for side, (name, input) in enumerate((("left", plan.left), ("right", plan.right))):
        if node[layout.KIND] == layout.LATER_JOIN and side == 0:
            texts.append("left not stored")
            continue
        child = physical.nodes[below[side]]
        if child[layout.KIND] == layout.DISTINCT_STAR and not is_signed and n_keys == arity_of(input):
            node[layout.P2] |= 1 << side
            node[layout.LEFT + side] = child[layout.LEFT]
            texts.append(f"{name} is the output of δ*")
            continue
        order = physical.order_of(input, is_signed=is_signed, is_eager=False)
        lasts = FOREVER if isinstance(input, plans.TableRows) else expiration_of(input).lasts
        is_scanned = physical.parameters.probes == "scan" and order != layout.UNORDERED
        key = NO_KEY if is_scanned else (on[side], n_keys)
        buffer = physical.add_buffer(n, order, layout.FORGET, arity_of(input), lasts, key)
        node[layout.LEFT + side] = buffer
        texts.append(f"{name} {_state(physical, buffer)}")
    if node[layout.KIND] == layout.LATER_JOIN and is_signed:
        arity, key = arity_of(plan), (0, arity_of(plan.left))
        node[layout.OUT] = physical.add_buffer(n, layout.UNORDERED, layout.FORGET, arity, FOREVER, key)
        texts.append("results kept until their ends are told")
    return ", ".join(texts)


def _state(physical: PhysicalPlan, buffer: int) -> str:
    """What a buffer is, in words."""
    row = physical.buffers[buffer]
    parts = []
    if row[layout.ORDER] != layout.UNORDERED:
        lists = row[layout.LISTS] - 1
        grows = " or more" if row[layout.STRAIN] != layout.FIXED else ""
        count = f"{lists}{grows} " if row[layout.ORDER] in (layout.SORTED, layout.LOOSE) else ""
        when = "eager" if row[layout.EVERY] == 0 else f"lazy every {row[layout.EVERY]}"
        parts.append(f"{count}{ORDER_NAMES[row[layout.ORDER]]}, {when}")
    if row[layout.KEYS] >= 0:
        parts.append("by key")
    return f"[{', '.join(parts) or 'unordered'}]"
