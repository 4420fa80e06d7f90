"""Instructions: some of the machine's that Numba has no name for, as intrinsics that cached kernels may use.

`lowest_bit` is the number of the lowest bit set of a word (64 if there is none), `n_bits` how many are set,
`without_lowest_bit` the word without it (0 if there is none). `cycles` reads the counter of processor cycles (on x86
that of time stamps, which counts at a constant rate). `pick` chooses between two numbers without a branch. `double_of`
reads the bits of an int64 as a double, `bits_of` goes back. `word_at` reads 64 bits from any byte of an array of words,
unchecked. `lanes_within` compares a number with LANES intervals at once, unchecked; `bytes_within` some bytes with
those of BYTES boxes, `bytes_at_ends` says for which of them a byte is an end, `bytes_beyond` and `bytes_same` say what
a second byte makes of that. `prefetch` asks for the line of an array's place, which may be beyond its end, and does not
wait for it. Uncompiled, a plain function stands for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.extending import intrinsic

from weir.index.box_tables import Uint8s
from weir.index.jit import Scalar, config
from weir.index.meeting.lean import lean, thin

_ONE = np.uint64(1)


def _plain_lowest_bit(word: Scalar) -> int:
    return (int(word) & -int(word)).bit_length() - 1 if word else 64


def _plain_n_bits(word: Scalar) -> int:
    return int(word).bit_count()


def _plain_without_lowest_bit(word: Scalar) -> np.uint64:
    return np.uint64(int(word) & (int(word) - 1)) if word else word


def _plain_cycles() -> int:
    return time.perf_counter_ns()


def _cttz(typingctx: Any, word: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


def _ctpop(typingctx: Any, word: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


def _readcyclecounter(typingctx: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        counter = builder.module.declare_intrinsic("llvm.readcyclecounter", (), ir.FunctionType(ir.IntType(64), ()))
        return builder.call(counter, ())

    return types.int64(), generate


_count_trailing_zeros: Any = intrinsic(_cttz)
_count_ones: Any = intrinsic(_ctpop)
_read_cycle_counter: Any = intrinsic(_readcyclecounter)


@lean
def _compiled_lowest_bit(word: Scalar) -> Scalar:
    return _count_trailing_zeros(word)


@lean
def _compiled_n_bits(word: Scalar) -> Scalar:
    return _count_ones(word)


@lean
def _compiled_without_lowest_bit(word: Scalar) -> Scalar:
    return word & (word - _ONE)


@lean
def _compiled_cycles() -> Scalar:
    return _read_cycle_counter()


lowest_bit, n_bits, without_lowest_bit, cycles = (
    (_plain_lowest_bit, _plain_n_bits, _plain_without_lowest_bit, _plain_cycles)
    if config.DISABLE_JIT
    else (_compiled_lowest_bit, _compiled_n_bits, _compiled_without_lowest_bit, _compiled_cycles)
)


def _select(typingctx: Any, condition: Any, yes: Any, no: Any) -> tuple[Any, Callable[..., Any]]:
    """yes if condition else no, as a conditional move: marked so, LLVM does not make a branch of it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        chosen = builder.select(*arguments)
        chosen.set_metadata("unpredictable", builder.module.add_metadata([]))
        return chosen

    return types.int64(types.boolean, types.int64, types.int64), generate


def _plain_pick(condition: Scalar, yes: Scalar, no: Scalar) -> Scalar:
    return yes if condition else no


pick: Any = _plain_pick if config.DISABLE_JIT else intrinsic(_select)


def _double_of(typingctx: Any, bits: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


def _bits_of(typingctx: Any, number: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


def _plain_double_of(bits: Scalar) -> float:
    return float(np.int64(bits).view(np.float64))  # a plain number, which infinity does not make warn


def _plain_bits_of(number: Scalar) -> np.int64:
    return np.float64(number).view(np.int64)


double_of: Any = _plain_double_of if config.DISABLE_JIT else intrinsic(_double_of)
bits_of: Any = _plain_bits_of if config.DISABLE_JIT else intrinsic(_bits_of)


def _word_at(typingctx: Any, words: Any, byte: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        start = builder.bitcast(array.data, ir.IntType(8).as_pointer())
        at = builder.bitcast(builder.gep(start, [arguments[1]]), ir.IntType(64).as_pointer())
        word = builder.load(at)
        word.align = 1
        return word

    return types.uint64(words, types.uint64), generate


def _plain_word_at(words: Any, byte: Scalar) -> np.uint64:
    return np.uint64(int.from_bytes(words.view(np.uint8)[int(byte) : int(byte) + 8].tobytes(), "little"))


word_at: Any = _plain_word_at if config.DISABLE_JIT else intrinsic(_word_at)


LANES = 16


def _lanes_within(typingctx: Any, lo: Any, hi: Any, place: Any, value: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(32), LANES)

        def bounds(number: int) -> Any:
            data = context.make_array(signature.args[number])(context, builder, arguments[number]).data
            at = builder.bitcast(builder.gep(data, [arguments[2]]), lanes.as_pointer())
            loaded = builder.load(at)
            loaded.align = 4
            return loaded

        none = ir.Constant(lanes, ir.Undefined)
        one = builder.insert_element(none, arguments[3], ir.IntType(32)(0))
        all_lanes = builder.shuffle_vector(one, none, ir.Constant(lanes, [0] * LANES))
        above = builder.icmp_signed("<=", bounds(0), all_lanes)
        below = builder.icmp_signed("<=", all_lanes, bounds(1))
        bits = builder.bitcast(builder.and_(above, below), ir.IntType(LANES))
        return builder.zext(bits, ir.IntType(32))

    return types.uint32(lo, hi, types.int64, types.int32), generate


def _plain_lanes_within(lo: Any, hi: Any, place: Scalar, value: Scalar) -> np.uint32:
    """Bit k is set if lo[place + k] <= value <= hi[place + k], places counted over the whole array."""
    low, high = (bounds.reshape(-1)[place : place + LANES] for bounds in (lo, hi))
    return np.uint32(sum(1 << lane for lane in range(LANES) if low[lane] <= value <= high[lane]))


lanes_within: Any = _plain_lanes_within if config.DISABLE_JIT else intrinsic(_lanes_within)


def _prefetch(typingctx: Any, array: Any, place: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), (address.type, word, word, word))
        ask = builder.module.declare_intrinsic("llvm.prefetch", (address.type,), kind)
        builder.call(ask, (address, word(0), word(3), word(1)))  # to read, into the nearest cache, data
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _plain_prefetch(array: Any, place: Scalar) -> None:
    """Without a compiler there is nobody to ask."""


prefetch: Any = _plain_prefetch if config.DISABLE_JIT else intrinsic(_prefetch)


BYTES = 64
TOGETHER = 4  # dimensions that are compared before somebody looks whether any lane is left


def _lanes_of_bytes(
    context: Any, builder: Any, arguments: Any, signature: Any, dims: int, combine: str, one: Any
) -> Any:
    """Bits of BYTES lanes: what `one` says of each dimension, combined.

    `one` gets the lower and upper bounds and the value of a dimension for all lanes, for each of the arrays of bounds.
    """
    byte, lanes = ir.IntType(8), ir.VectorType(ir.IntType(8), BYTES)
    none, same = ir.Constant(lanes, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), BYTES), [0] * BYTES)
    *arrays, place, at = arguments
    data = [
        context.make_array(kind)(context, builder, array).data
        for kind, array in zip(signature.args, arrays, strict=False)
    ]

    def behind(start: Any, count: int) -> Any:
        return builder.add(start, ir.Constant(start.type, count))

    def ends(bounds: Any, count: int) -> Any:
        loaded = builder.load(builder.bitcast(builder.gep(bounds, [behind(place, count)]), lanes.as_pointer()))
        loaded.align = 1
        return loaded

    def in_all_lanes(values: Any, dim: int) -> Any:
        value = builder.load(builder.bitcast(builder.gep(values, [behind(at, dim)]), byte.as_pointer()))
        return builder.shuffle_vector(builder.insert_element(none, value, ir.IntType(32)(0)), none, same)

    found = None
    for dim in range(dims):
        first = 2 * BYTES * dim
        seen = [
            (ends(bounds, first), ends(bounds, first + BYTES), in_all_lanes(values, dim))
            for bounds, values in zip(data[::2], data[1::2], strict=True)
        ]
        here = one(builder, *seen)
        found = here if found is None else getattr(builder, combine)(found, here)
    return builder.bitcast(found, ir.IntType(BYTES))


def _within(builder: Any, coarse: Any) -> Any:
    low, high, value = coarse
    return builder.and_(builder.icmp_unsigned("<=", low, value), builder.icmp_unsigned("<=", value, high))


def _at_ends(builder: Any, coarse: Any) -> Any:
    low, high, value = coarse
    return builder.or_(builder.icmp_unsigned("==", low, value), builder.icmp_unsigned("==", value, high))


def _beyond(builder: Any, coarse: Any, fine: Any) -> Any:
    (low, high, value), (fine_low, fine_high, fine_value) = coarse, fine
    below = builder.and_(builder.icmp_unsigned("==", low, value), builder.icmp_unsigned("<", fine_value, fine_low))
    above = builder.and_(builder.icmp_unsigned("==", high, value), builder.icmp_unsigned("<", fine_high, fine_value))
    return builder.or_(below, above)


def _same_as_ends(builder: Any, coarse: Any, fine: Any) -> Any:
    (low, high, value), (fine_low, fine_high, fine_value) = coarse, fine
    below = builder.and_(builder.icmp_unsigned("==", low, value), builder.icmp_unsigned("==", fine_value, fine_low))
    above = builder.and_(builder.icmp_unsigned("==", high, value), builder.icmp_unsigned("==", fine_high, fine_value))
    return builder.or_(below, above)


def _by_codes(dims: int, combine: str, one: Any) -> Any:
    def compare(typingctx: Any, bounds: Any, values: Any, place: Any, at: Any) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _lanes_of_bytes(context, builder, arguments, signature, dims, combine, one)

        return types.uint64(bounds, values, types.int64, types.int64), generate

    return intrinsic(compare)


def _by_both_codes(one: Any) -> Any:
    def compare(
        typingctx: Any, bounds: Any, values: Any, fine: Any, fine_values: Any, place: Any, at: Any
    ) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _lanes_of_bytes(context, builder, arguments, signature, 1, "or_", one)

        return types.uint64(bounds, values, fine, fine_values, types.int64, types.int64), generate

    return intrinsic(compare)


def _plain_ends(bounds: Any, values: Any, place: Scalar, at: Scalar, dims: int = 1) -> tuple[Any, Any, Any]:
    """Of each dimension and lane the lower and the upper bound, and of each dimension the value."""
    ends = bounds.reshape(-1)[place : place + 2 * BYTES * dims].reshape(dims, 2, BYTES)
    return ends[:, 0], ends[:, 1], values.reshape(-1)[at : at + dims, None]


def _plain_bits(holds: Any) -> np.uint64:
    return np.uint64(sum(1 << lane for lane in np.flatnonzero(holds).tolist()))


def _plain_by_codes(dims: int, is_within: bool) -> Callable[..., Any]:
    def compare(bounds: Any, values: Any, place: Scalar, at: Scalar) -> np.uint64:
        low, high, value = _plain_ends(bounds, values, place, at, dims)
        if is_within:
            return _plain_bits(((low <= value) & (value <= high)).all(axis=0))
        return _plain_bits(((low == value) | (value == high)).any(axis=0))

    return compare


def _plain_bytes_beyond(bounds: Any, values: Any, fine: Any, fine_values: Any, place: Scalar, at: Scalar) -> np.uint64:
    """Lanes of which the value's first byte is that of an end, and its second byte is outside."""
    low, high, value = _plain_ends(bounds, values, place, at)
    fine_low, fine_high, fine_value = _plain_ends(fine, fine_values, place, at)
    return _plain_bits((((low == value) & (fine_value < fine_low)) | ((high == value) & (fine_high < fine_value)))[0])


def _plain_bytes_same(bounds: Any, values: Any, fine: Any, fine_values: Any, place: Scalar, at: Scalar) -> np.uint64:
    """Lanes of which both bytes of the value are those of an end."""
    low, high, value = _plain_ends(bounds, values, place, at)
    fine_low, fine_high, fine_value = _plain_ends(fine, fine_values, place, at)
    return _plain_bits((((low == value) & (fine_value == fine_low)) | ((high == value) & (fine_high == fine_value)))[0])


bytes_beyond: Any = _plain_bytes_beyond if config.DISABLE_JIT else _by_both_codes(_beyond)
bytes_same: Any = _plain_bytes_same if config.DISABLE_JIT else _by_both_codes(_same_as_ends)
_one, _two, _three, _four = (
    _plain_by_codes(dims, True) if config.DISABLE_JIT else _by_codes(dims, "and_", _within)
    for dims in range(1, TOGETHER + 1)
)
_one_end, _two_ends, _three_ends, _four_ends = (
    _plain_by_codes(dims, False) if config.DISABLE_JIT else _by_codes(dims, "or_", _at_ends)
    for dims in range(1, TOGETHER + 1)
)


@thin
def bytes_at_ends(bounds: Uint8s, values: Uint8s, place: Scalar, at: Scalar, dims: Scalar) -> Scalar:
    """The lanes for which a row's value is a bound in some dimension, as bits; arguments as below."""
    found = np.uint64(0)
    place, at = np.int64(place), np.int64(at)
    while dims >= TOGETHER:
        found |= _four_ends(bounds, values, place, at)
        place += TOGETHER * 2 * BYTES
        at += TOGETHER
        dims -= TOGETHER
    if dims == 3:
        return found | _three_ends(bounds, values, place, at)
    if dims == 2:
        return found | _two_ends(bounds, values, place, at)
    if dims == 1:
        return found | _one_end(bounds, values, place, at)
    return found


@thin
def bytes_within(bounds: Uint8s, values: Uint8s, place: Scalar, at: Scalar, dims: Scalar, lanes: Scalar) -> Scalar:
    """Of some of BYTES lanes those whose bounds hold a row in all dimensions, as bits.

    From `place` on there are for each dimension the lower bounds of all lanes and then the upper ones; the row's values
    begin at `at`. Dimensions are compared by fours, and nobody looks before the eighth whether a lane is left: where a
    search ends would be guessed wrongly more often than not.
    """
    left = lanes
    place, at = np.int64(place), np.int64(at)
    while dims > TOGETHER:
        left &= _four(bounds, values, place, at)
        if dims > 2 * TOGETHER and left == np.uint64(0):
            return left
        place += TOGETHER * 2 * BYTES
        at += TOGETHER
        dims -= TOGETHER
    if dims == 4:
        return left & _four(bounds, values, place, at)
    if dims == 3:
        return left & _three(bounds, values, place, at)
    if dims == 2:
        return left & _two(bounds, values, place, at)
    if dims == 1:
        return left & _one(bounds, values, place, at)
    return left
