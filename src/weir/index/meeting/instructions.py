"""Instructions: some of the machine's that Numba has no name for, as intrinsics that cached kernels may use.

`lowest_bit` is the number of the lowest bit set of a word (64 if there is none), `n_bits` how many are set,
`without_lowest_bit` the word without it (0 if there is none). `cycles` reads the counter of processor cycles (on x86
that of time stamps, which counts at a constant rate). `pick` chooses between two numbers without a branch. `double_of`
reads the bits of an int64 as a double, `bits_of` goes back. `word_at` reads 64 bits from any byte of an array of words,
unchecked. `lanes_within` compares a number with LANES intervals at once, unchecked. `prefetch` asks for the line of an
array's place, which may be beyond its end, and does not wait for it. Uncompiled, a plain function stands for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.extending import intrinsic

from weir.index.jit import Scalar, config
from weir.index.meeting.lean import lean

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
