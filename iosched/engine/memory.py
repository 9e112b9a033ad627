"""The engine's tables as compiled code sees them: one pointer.

Handing some thirty record arrays to every compiled function means more than two hundred arguments a call; that cost
70 s of compile time and most of the run time. Here `s` is the address of a row of addresses, `s.requests` loads one of
them, and `s.requests[i]` is a reference to a row. The same expressions work on the tables of `state.State`, so the
same sources run as plain Python.
"""

from __future__ import annotations

import hashlib
import operator

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global, signature
from numba.extending import intrinsic, lower_getattr_generic, lower_setattr_generic, models, register_model

from .tables import TABLES

POINTER = ir.IntType(8).as_pointer()


def short_name(kind: str, content: object) -> str:
    """A type's name goes into the symbol of every function that takes it, so it is a hash of what it stands for:
    with the columns spelt out, symbols of 14 KB made up most of the compiled code."""
    return f"{kind}{hashlib.sha256(str(content).encode()).hexdigest()[:12]}"


class RowType(types.Record):
    """A record with a short name."""

    @property
    def mangling_args(self) -> tuple[str, tuple]:
        """(name, parameters) for the symbols of functions."""
        return short_name("Row", self.name), ()


class TableType(types.Type):
    """A table of records, known by its address alone: no bounds are checked."""

    def __init__(self, record: RowType) -> None:
        self.record = record
        super().__init__(name=short_name("Table", record))


class StateType(types.Type):
    """All tables of a run, in the order of `TABLES`."""

    def __init__(self, records: tuple) -> None:
        self.records = records
        self.tables = {name: TableType(record) for name, record in zip(TABLES, records, strict=True)}
        super().__init__(name=short_name("State", records))


def row_type(dtype: np.dtype) -> RowType:
    """The row type of a table's columns."""
    record = numba.from_dtype(dtype)
    fields = [(name, {"type": f.type, "offset": f.offset}) for name, f in record.fields.items()]
    return RowType(fields, record.size, record.aligned)


register_model(RowType)(models.RecordModel)
register_model(TableType)(models.OpaqueModel)
register_model(StateType)(models.OpaqueModel)

STATE = StateType(tuple(row_type(dtype) for dtype in TABLES.values()))


@infer_getattr
class _StateAttribute(AttributeTemplate):
    key = StateType

    def generic_resolve(self, state: StateType, name: str) -> TableType | None:
        return state.tables.get(name)


@lower_getattr_generic(StateType)
def _load_table(context, builder, state, value, name):
    """Load the table's address. Tables never move during a run, so the load is marked invariant and may be hoisted."""
    index = list(state.tables).index(name)
    row = builder.bitcast(value, POINTER.as_pointer())
    loaded = builder.load(cgutils.gep_inbounds(builder, row, index))
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


@infer_global(operator.getitem)
class _TableRow(AbstractTemplate):
    def generic(self, args, kws):
        table, index = args
        if isinstance(table, TableType) and isinstance(index, types.Integer):
            return signature(table.record, table, types.intp)
        return None


@lower_builtin(operator.getitem, TableType, types.Integer)
def _row(context, builder, sig, args):
    """Address of row `index`; a record value is a pointer into the table."""
    table, index = args
    offset = builder.mul(index, ir.Constant(index.type, sig.return_type.size))
    place = builder.gep(table, [offset], inbounds=True)
    return builder.bitcast(place, context.get_value_type(sig.return_type))


def _column(context, builder, row, value, name):
    """Address of a row's column, and a mark that says that a column of another name or table is at no such address.

    Without the mark (LLVM's type-based alias analysis) everything is read from memory again after every write.
    """
    kind = context.get_value_type(row.typeof(name))
    place = cgutils.get_record_member(builder, value, row.offset(name), kind)
    mark, zero = builder.module.add_metadata, ir.Constant(ir.IntType(64), 0)
    column = mark([f"{row.mangling_args[0]}.{name}", mark(["columns"]), zero])
    return place, mark([column, column, zero])


@lower_getattr_generic(RowType)
def _load_column(context, builder, row, value, name):
    place, mark = _column(context, builder, row, value, name)
    loaded = builder.load(place)
    loaded.set_metadata("tbaa", mark)
    return loaded


@lower_setattr_generic(RowType)
def _store_column(context, builder, sig, args, name):
    row, given = sig.args
    place, mark = _column(context, builder, row, args[0], name)
    stored = builder.store(context.cast(builder, args[1], given, row.typeof(name)), place)
    stored.set_metadata("tbaa", mark)


@intrinsic
def state_at(typing_context, address):
    """The State whose row of addresses is at `address` (an integer)."""

    def codegen(context, builder, sig, args):
        return builder.inttoptr(args[0], POINTER)

    return STATE(types.intp), codegen
