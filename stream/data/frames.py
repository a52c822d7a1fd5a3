"""Tables that callers bring, read by column, and answers in the form in which they came.

Rule: no library of frames is imported unless the object of the caller belongs to it. narwhals,
which river needs too, finds the library of a frame and reads its columns
(docs/decisions/programs.md#a-table-is-read-by-column-and-learned-by-row).
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from stream.data.parameters import shown
from stream.data.schema import NA_TYPES, Label
from stream.errors import SchemaError

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

__all__ = [
    "Cells",
    "Dicts",
    "MiniBatch",
    "Table",
    "array_of",
    "mini_batch",
]

Cells = Literal["number", "truth", "string", "other"]
FLAT = (list, tuple)  # never a table
NUMBERS = "fiu"  # kinds of numpy types
# What classes of tables and columns have, and lists of records do not.
MARKS = (
    *("__arrow_c_stream__", "__dataframe__", "__narwhals_dataframe__"),
    *("columns", "collect", "tocsr", "dtype", "to_pylist"),
)
INSTEAD = "expected a DataFrame, an Arrow table, an array with two dimensions or a list of records"
CONVERT = "convert it to numbers or text, or drop the column"
# Types of narwhals by the kind of their cells. Those of wider numbers are read cell by cell.
KINDS: dict[str, Cells] = {
    **dict.fromkeys(("Float64", "Float32", "Int64", "Int32", "Int16", "Int8"), "number"),
    **dict.fromkeys(("UInt64", "UInt32", "UInt16", "UInt8"), "number"),
    "Boolean": "truth",
    **dict.fromkeys(("String", "Categorical", "Enum"), "string"),
}
# And the types of Python.
PYTHON: dict[Cells, set[type]] = {
    "number": {float, int, np.float64, np.float32, np.int64, np.int32},
    "truth": {bool, np.bool_},
    "string": {str},
}
FEW = 16  # records that are read one by one
DENSE = 4  # a table of dicts has at most this many cells for each value
NO_FEATURE = ("Datetime", "Date", "Duration", "Time", "List", "Array", "Struct", "Binary")


class MiniBatch(abc.ABC):
    """What a caller brought: where the answer to it has its form from."""

    @abc.abstractmethod
    def labels(self, classes: Sequence[Label], best: NDArray[np.int64]) -> Any:
        """One label for each row. best int64 (n,): its class; -1: none is known."""

    @abc.abstractmethod
    def shares(self, classes: Sequence[Label], proba: NDArray[np.float64]) -> Any:
        """One probability for each row and class. proba float64 (n, C)."""


class Dicts(MiniBatch):
    """A list of dicts. The answers are lists."""

    def labels(self, classes: Sequence[Label], best: NDArray[np.int64]) -> list[Label | None]:
        return [None if code < 0 else classes[code] for code in best.tolist()]

    def shares(
        self, classes: Sequence[Label], proba: NDArray[np.float64]
    ) -> list[dict[Label, float]]:
        return [dict(zip(classes, row, strict=True)) for row in proba.tolist()]


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """One column of a table.

    Parameters
    ----------
    name
        The name of the feature.
    cells
        The kind of all cells that are not missing; "other": not the same kind, or not known.
    vector
        Numbers or truth values, (n,), NaN if missing: a view of the column if its library has one.
        None: only `values` has the cells.
    native
        The column in its library.
    """

    name: str
    cells: Cells
    vector: NDArray[Any] | None
    native: Any

    def values(self) -> list[Any]:
        """The cells as Python values; None or NaN if missing."""
        native = self.native
        if isinstance(native, list):
            return native
        array = isinstance(native, np.ndarray)
        return _without_na(native.tolist() if array else native.to_list())


class Table(MiniBatch):
    """A frame or an array: rows of named columns."""

    names: tuple[str, ...]

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @abc.abstractmethod
    def columns(self) -> Iterator[FrameColumn]:
        """The columns, in order."""

    @property
    @abc.abstractmethod
    def matrix(self) -> NDArray[np.float64] | None:
        """The memory of the table itself, if that is a C-ordered, writable float64 (n, columns)."""

    def records(self) -> list[dict[str, Any]]:
        """One dict for each row. O(cells) objects."""
        cells = [column.values() for column in self.columns()]
        if not cells:
            return [{} for _ in range(len(self))]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*cells, strict=True)]


class DictTable(Dicts, Table):
    """Dicts with mostly the same names, by column. Names are sorted; absent values are None."""

    def __init__(self, xs: Sequence[Mapping[str, Any]], names: tuple[str, ...]) -> None:
        self._xs, self.names = xs, names

    def __len__(self) -> int:
        return len(self._xs)

    def columns(self) -> Iterator[FrameColumn]:
        for name in self.names:
            values = [x.get(name) for x in self._xs]
            kinds = set(map(type, values)) - {type(None)}
            if not kinds:
                continue
            cells: Cells = next((c for c, t in PYTHON.items() if kinds <= t), "other")
            vector = None
            if cells in ("number", "truth"):
                try:
                    vector = np.array(values, dtype=np.float64)
                except OverflowError:
                    cells = "other"
            yield FrameColumn(name, cells, vector, values)

    @property
    def matrix(self) -> None:
        return None

    def records(self) -> list[dict[str, Any]]:
        return [{**x} for x in self._xs]


class Matrix(Table):
    """A numpy array with a row for each record. The name of column 3 is "3"."""

    def __init__(self, cells: NDArray[Any]) -> None:
        if isinstance(cells, np.ma.MaskedArray):
            raise SchemaError(f"{INSTEAD}, got a masked array; use .filled(numpy.nan)")
        if cells.ndim != 2:
            raise SchemaError(f"{INSTEAD}, got an array of shape {cells.shape}")
        if cells.dtype.kind not in "fiubUO":
            raise SchemaError(f"an array of {cells.dtype} has no features; {CONVERT}")
        self._cells = np.asarray(cells)
        self.names = tuple(map(str, range(cells.shape[1])))

    def __len__(self) -> int:
        return len(self._cells)

    def columns(self) -> Iterator[FrameColumn]:
        read = _cells_of(self._cells.dtype)
        cells = read or ("string" if self._cells.dtype.kind == "U" else "other")
        for j, name in enumerate(self.names):
            column = self._cells[:, j]
            yield FrameColumn(name, cells, column if read else None, column)

    @property
    def matrix(self) -> NDArray[np.float64] | None:
        return _in_place(self._cells)

    def labels(self, classes: Sequence[Label], best: NDArray[np.int64]) -> NDArray[Any]:
        return _taken(classes, best, texts=None)

    def shares(self, classes: Sequence[Label], proba: NDArray[np.float64]) -> NDArray[np.float64]:
        return proba


class Frame(Table):
    """A DataFrame of any library that narwhals reads, or an Arrow table."""

    def __init__(self, frame: nw.DataFrame[Any]) -> None:
        self._frame, self._native = frame, frame.to_native()
        self._pandas = frame.implementation.is_pandas_like()
        self.names = _names([*frame.columns])

    def __len__(self) -> int:
        return len(self._frame)

    def columns(self) -> Iterator[FrameColumn]:
        import narwhals.stable.v2 as nw

        if not self._pandas:
            for name, series in zip(self.names, self._frame.iter_columns(), strict=True):
                yield _column(name, series)
            return
        for name, (_, series) in zip(self.names, self._native.items(), strict=True):
            if cells := _cells_of(series.dtype):
                yield FrameColumn(name, cells, series.to_numpy(), series)
            else:
                yield _column(name, nw.from_native(series, series_only=True))

    @property
    def matrix(self) -> NDArray[np.float64] | None:
        if not self._pandas or not self.names:
            return None  # other libraries keep columns apart
        if any(dtype != np.float64 for dtype in self._native.dtypes):
            return None
        first = self._native.iloc[:, 0].to_numpy()
        if first.strides == (first.itemsize,) and len(self.names) > 1:
            return None  # each column is in one piece, so no row is
        whole = self._native.to_numpy()
        return _in_place(whole) if np.shares_memory(whole, first) else None

    def labels(self, classes: Sequence[Label], best: NDArray[np.int64]) -> Any:
        import narwhals.stable.v2 as nw

        values = _taken(classes, best, texts=object)
        if self._pandas:
            library: Any = nw.get_native_namespace(self._frame)
            return library.Series(values, index=nw.maybe_get_index(self._frame))
        given = values if values.dtype != object else values.tolist()
        return nw.new_series("", given, backend=self._frame.implementation).to_native()

    def shares(self, classes: Sequence[Label], proba: NDArray[np.float64]) -> Any:
        import narwhals.stable.v2 as nw

        library: Any = nw.get_native_namespace(self._frame)
        if self._pandas:
            index = nw.maybe_get_index(self._frame)
            return library.DataFrame(proba, index=index, columns=list(classes))
        columns = {str(label): proba[:, j] for j, label in enumerate(classes)}
        if not columns:  # these libraries have no rows without columns
            return self._frame.head(0).select().to_native()
        return nw.from_dict(columns, backend=self._frame.implementation).to_native()


def _column(name: str, series: Any) -> FrameColumn:
    """A column as narwhals reads it."""
    kind = type(series.dtype).__name__
    if kind in NO_FEATURE:
        raise SchemaError(f"column {name!r} has type {kind}; {CONVERT}")
    cells = KINDS.get(kind, "other")
    vector = series.to_numpy() if cells in ("number", "truth") else None
    if vector is not None and not _cells_of(vector.dtype):
        vector = None  # missing truth values: an array of objects
    return FrameColumn(name, cells, vector, series)


def mini_batch(given: Any) -> MiniBatch:
    """What `given` is: records, or a table.

    Raises
    ------
    SchemaError
        It is a table without a row for each record, or its columns have no distinct flat names.

    Examples
    --------
    >>> type(mini_batch([{"a": 1}])).__name__, type(mini_batch(np.zeros((2, 3)))).__name__
    ('Dicts', 'Matrix')
    >>> mini_batch(np.zeros((2, 3))).names
    ('0', '1', '2')
    """
    kind = type(given)
    if isinstance(given, MiniBatch):
        return given
    if isinstance(given, np.ndarray):
        return Matrix(given) if given.ndim != 1 or given.dtype != object else Dicts()
    if isinstance(given, FLAT):
        return _of_dicts(given)
    if not any(hasattr(kind, mark) for mark in MARKS):
        return Dicts()
    import narwhals.stable.v2 as nw

    if hasattr(given, "sparse"):  # pandas, where every column is sparse
        given = given.sparse.to_dense()
    try:
        frame = nw.from_native(given, eager_only=True)
    except nw.exceptions.DuplicateError:
        names = given.columns if hasattr(given, "iloc") else given.schema.names
        _refuse_levels(names)
        _names(list(names))
        raise
    except TypeError:
        frame = _from_arrow(given)
    _refuse_levels(getattr(frame.to_native(), "columns", None))
    return Frame(frame)


def _of_dicts(xs: Sequence[Any]) -> Dicts:
    """The dicts by column, if they are many and have mostly the same names."""
    if len(xs) < FEW or set(map(type, xs)) != {dict}:
        return Dicts()
    names: set[Any] = set().union(*xs)
    dense = len(names) * len(xs) <= DENSE * sum(map(len, xs))
    if not dense or set(map(type, names)) != {str}:
        return Dicts()
    return DictTable(xs, tuple(sorted(names)))


def _from_arrow(given: Any) -> nw.DataFrame[Any]:
    """What narwhals does not read as a frame: any stream of Arrow, or an error."""
    kind = type(given)
    came = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    has = {mark for mark in MARKS if hasattr(kind, mark)}
    one_column = has & {"dtype", "to_pylist"} and "tocsr" not in has
    if one_column and not hasattr(kind, "schema"):
        raise SchemaError(f"{INSTEAD}, got one column: {came}")
    if "__arrow_c_stream__" not in has:
        instead = {"tocsr": "; call .toarray() first", "collect": "; call .collect() first"}
        what = next((text for mark, text in instead.items() if mark in has), "")
        raise SchemaError(f"{INSTEAD}, got {came}{what}")
    try:
        import pyarrow
    except ImportError:
        raise SchemaError(
            f"a {came} is read by pyarrow: pip install pyarrow, or pass a DataFrame"
        ) from None
    import narwhals.stable.v2 as nw

    return nw.from_native(pyarrow.table(given), eager_only=True)


def array_of(name: str, values: Any) -> Any:
    """A column of labels or weights as an array of numbers or truth values, or as a list.

    Lists, texts and numbers stay as they are.

    Raises
    ------
    SchemaError
        It has more than one dimension.

    Examples
    --------
    >>> array_of("y", np.array(["a", "b"])), array_of("y", ("a", "b"))
    (['a', 'b'], ('a', 'b'))
    >>> array_of("y", np.zeros((2, 1)))
    Traceback (most recent call last):
    stream.errors.SchemaError: y must have one dimension, got shape (2, 1); use y.ravel()
    """
    if isinstance(values, np.ndarray):
        if values.ndim > 1:
            _refuse_shape(name, values.shape, f"; use {name}.ravel()")
        plain = values.ndim == 0 or values.dtype.kind in f"{NUMBERS}b"
        return values if plain else values.tolist()
    if isinstance(values, FLAT) or type(values).__module__ in ("builtins", "numpy"):
        return values
    if len(getattr(values, "shape", ())) > 1:
        _refuse_shape(name, values.shape, "")
    if _cells_of(getattr(values, "dtype", None)):  # pandas, by a type of numpy
        return np.asarray(values)
    if hasattr(values, "to_pylist"):  # Arrow
        whole = not values.null_count and str(values.type) in ("int64", "int32", "bool", "double")
        return np.asarray(values.to_numpy(zero_copy_only=False)) if whole else values.to_pylist()
    if hasattr(values, "null_count") and str(values.dtype) in KINDS and not values.null_count():
        array = values.to_numpy()  # Polars
        return array if _cells_of(array.dtype) else values.to_list()
    for listed in ("tolist", "to_list"):
        if hasattr(values, listed):
            return _without_na(getattr(values, listed)())
    return values


def _refuse_levels(columns: Any) -> None:
    levels = getattr(columns, "nlevels", 1)
    if levels > 1:
        raise SchemaError(
            f"the names of columns must be flat, got {levels} levels; join them first: "
            'frame.columns = ["_".join(map(str, name)) for name in frame.columns]'
        )


def _refuse_shape(name: str, shape: tuple[int, ...], instead: str) -> NoReturn:
    raise SchemaError(f"{name} must have one dimension, got shape {shape}{instead}")


def _names(columns: Sequence[Any]) -> tuple[str, ...]:
    """The names of columns as text, each once."""
    names = tuple(name if type(name) is str else str(name) for name in columns)
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise SchemaError(f"the names of columns must be distinct, got {shown(twice)} twice")
    return names


def _cells_of(dtype: Any) -> Cells | None:
    """The kind of the cells of a type of numpy, if kernels can have them as float64."""
    if not isinstance(dtype, np.dtype) or dtype.itemsize > 8:
        return None
    return "truth" if dtype.kind == "b" else "number" if dtype.kind in NUMBERS else None


def _in_place(cells: NDArray[Any]) -> NDArray[np.float64] | None:
    """`cells`, if kernels take them as they are: they are compiled for this type only."""
    flags = cells.flags
    fits = cells.dtype == np.float64 and flags.c_contiguous and flags.writeable and flags.aligned
    return cells if fits and cells.dtype.isnative else None


def _taken(classes: Sequence[Label], best: NDArray[np.int64], texts: Any) -> NDArray[Any]:
    """The label of each code; None for all if no class is known. `texts`: the type of texts."""
    if not classes or (best < 0).any():
        return np.full(best.shape, None, dtype=object)
    named = np.array(classes, dtype=texts if isinstance(classes[0], str) else None)
    return named[best]


def _without_na(values: list[Any]) -> list[Any]:
    """pandas' NA and NaT as None."""
    if not any(kind.__name__ in NA_TYPES for kind in set(map(type, values))):
        return values
    return [None if type(v).__name__ in NA_TYPES else v for v in values]
