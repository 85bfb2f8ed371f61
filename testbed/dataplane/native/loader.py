"""The ABI of `runtime/abi.h` and the functions of `runtime/trials.h`, as ctypes sees them."""

import ctypes
from ctypes import (
    POINTER,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_size_t,
    c_ubyte,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Any

MUTANT_BYTES = 4096
STATUS = ("ok", "no memory", "not found", "exists already", "full", "fixed by the program", "invalid")


class Call(ctypes.Structure):
    _fields_ = (("kind", c_uint32), ("number", c_uint32), ("data", c_char_p))


class Match(ctypes.Structure):
    _fields_ = (("value", c_char_p), ("mask", c_char_p), ("priority", c_int32))


class Count(ctypes.Structure):
    _fields_ = (("packets", c_uint64), ("bytes", c_uint64))


class Rates(ctypes.Structure):
    _fields_ = (
        ("committed_per_us", c_double),
        ("peak_per_us", c_double),
        ("committed_burst", c_uint64),
        ("peak_burst", c_uint64),
    )


class Names(ctypes.Structure):
    _fields_ = (("names", POINTER(c_char_p)), ("count", c_uint32))


def _function(*arguments: Any) -> Any:
    """Of the control plane: so short that it keeps the interpreter's lock, for which it would wait longer after it."""
    return ctypes.PYFUNCTYPE(c_int, c_void_p, *arguments)


class ProgramTable(ctypes.Structure):
    """`struct p4_program`; the functions that move packets stay opaque, for they are called from C only."""

    _fields_ = (
        ("abi", c_uint32),
        ("name", c_char_p),
        ("context_bytes", c_size_t),
        ("headroom_bytes", c_uint32),
        ("looks_bytes", c_uint32),
        *((name, Names) for name in ("tables", "profiles", "registers", "counters", "meters", "value_sets", "digests")),
        ("create", c_void_p),
        ("destroy", c_void_p),
        *(
            (name, c_void_p)
            for name in ("forward", "ingress", "resubmit", "recirculate", "clone_ingress", "egress", "clone_egress")
        ),
        ("deparse", c_void_p),
        ("digest_read", c_void_p),
        ("digest_bytes", c_size_t),
        ("insert", _function(c_uint32, POINTER(Match), POINTER(Call), POINTER(c_uint32))),
        ("find", _function(c_uint32, POINTER(Match), POINTER(c_uint32))),
        ("modify", _function(c_uint32, c_uint32, POINTER(Call))),
        ("remove", _function(c_uint32, c_uint32)),
        ("set_default", _function(c_uint32, POINTER(Call))),
        ("entry_count", _function(c_uint32, c_uint32, POINTER(Count))),
        ("entry_count_set", _function(c_uint32, c_uint32, POINTER(Count))),
        ("entry_meter_set", _function(c_uint32, c_uint32, POINTER(Rates))),
        ("member_add", _function(c_uint32, POINTER(Call), POINTER(c_uint32))),
        ("member_modify", _function(c_uint32, c_uint32, POINTER(Call))),
        ("member_remove", _function(c_uint32, c_uint32)),
        ("group_set", _function(c_uint32, c_uint32, POINTER(c_uint32), c_uint32)),
        ("group_remove", _function(c_uint32, c_uint32)),
        ("register_read", _function(c_uint32, c_uint32, POINTER(c_ubyte))),
        ("register_write", _function(c_uint32, c_uint32, c_char_p)),
        ("counter_read", _function(c_uint32, c_uint32, POINTER(Count))),
        ("counter_write", _function(c_uint32, c_uint32, POINTER(Count))),
        ("meter_set", _function(c_uint32, c_uint32, POINTER(Rates))),
        ("value_set_add", _function(c_uint32, c_char_p, c_char_p)),
        ("value_set_clear", _function(c_uint32)),
    )


class Frame(ctypes.Structure):
    _fields_ = (("port", c_uint32), ("length", c_uint32), ("data", c_char_p))


class Mutant(ctypes.Structure):
    _fields_ = (("port", c_uint32), ("length", c_uint32), ("data", c_ubyte * MUTANT_BYTES))


def load_program(path: Path) -> tuple[ctypes.CDLL, ProgramTable]:
    """The shared object of a program and the table that it exports."""
    library = ctypes.CDLL(str(path))
    return library, ProgramTable.in_dll(library, "p4_program")


def load_trials(path: Path) -> ctypes.CDLL:
    """The shared object of the trials, with the types of its functions."""
    library = ctypes.CDLL(str(path))
    frames = (POINTER(Frame), c_uint32)
    library.trials_mutate.restype = None
    library.trials_mutate.argtypes = (*frames, POINTER(c_uint64), POINTER(Mutant), c_uint32)
    library.trials_bench.restype = c_uint64
    library.trials_bench.argtypes = (POINTER(ProgramTable), c_void_p, *frames, c_uint64)
    return library
