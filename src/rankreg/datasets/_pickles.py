"""Reading a CIFAR pickle as data: nothing in it can name a function to run.

The official files hold a dictionary of strings, numbers, lists and one numpy array. The three numpy names that an
array is pickled with are answered by plain records made for the occasion, every other name is refused, and the
array is built here from its checked bytes.
"""

import io
import pickle
import pickletools
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_FILE = 400_000_000  # bytes; the largest official file has 155 million
MOST_STEPS = 500_000  # the official file with most of them has 200,362
ARGUMENTS = {code.code.encode("latin1"): code.arg.n if code.arg else 0 for code in pickletools.opcodes}
LENGTHS = {  # arguments that say how long they are: the bytes of that number
    pickletools.TAKEN_FROM_ARGUMENT1: 1,
    pickletools.TAKEN_FROM_ARGUMENT4: 4,
    pickletools.TAKEN_FROM_ARGUMENT4U: 4,
    pickletools.TAKEN_FROM_ARGUMENT8U: 8,
}
PUTS = (pickle.PUT, pickle.BINPUT, pickle.LONG_BINPUT)
STOP = pickle.STOP


def read_pickle(content: bytes, name: str) -> dict[bytes, Any]:
    """The dictionary in an official CIFAR file, its array as uint8 rows."""
    try:
        _check_memory(content)
        loaded = _Reader(io.BytesIO(content)).load()
    except Exception as error:  # hostile bytes can make the reader raise anything
        raise ValueError(f"{name} is not an official CIFAR file or is damaged: {error}") from error
    if not isinstance(loaded, dict):
        raise ValueError(f"{name} is not an official CIFAR file: it holds no dictionary")
    return {key: _array(value, name) if hasattr(value, "array_state") else value for key, value in loaded.items()}


def _check_memory(content: bytes) -> None:
    """Refuse what takes memory out of proportion: Python's reader sets aside what an instruction asks for first.

    Lengths must lie within the file, and a place in the list of things to remember among those passed already.
    """
    place = steps = 0
    while content[place : place + 1] != STOP:
        code, steps = content[place : place + 1], steps + 1
        if code not in ARGUMENTS or steps > MOST_STEPS:
            raise ValueError("it is cut short, or has too many or unknown instructions")
        width, start = ARGUMENTS[code], place + 1
        if width == pickletools.UP_TO_NEWLINE:
            place = content.index(b"\n", start) + 1
            number = int(content[start : place - 1]) if code == pickle.PUT else 0
            if code in (pickle.GLOBAL, pickle.INST):  # module and name
                place = content.index(b"\n", place) + 1
        else:
            place = start + LENGTHS.get(width, width)
            number = int.from_bytes(content[start:place], "little")
            place += number if width in LENGTHS else 0
        if place > len(content) or (code == pickle.FRAME and number > len(content)):
            raise ValueError("it is cut short")
        if code in PUTS and not 0 <= number <= steps:
            raise ValueError("it asks for memory that no official file needs")


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, encoding="bytes")

        # Made anew for each file: a hostile one could set attributes on them, and must not meet the next.
        class Record:
            array_state: Any = None

            def __init__(self, *ignored: Any) -> None:
                self.arguments = ignored

            def __setstate__(self, state: Any) -> None:
                self.array_state = state

        self._known = {
            ("numpy.core.multiarray", "_reconstruct"): Record,
            ("numpy", "ndarray"): Record,
            ("numpy", "dtype"): Record,
        }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no official file does")
        return self._known[module, name]


def _array(record: Any, name: str) -> NDArray[np.uint8]:
    """The uint8 array that (version, shape, dtype, fortran order, bytes) describe."""
    try:
        _, (rows, columns), dtype, fortran, content = record.array_state
        whole = all(type(value) is int and value >= 0 for value in (rows, columns)) and type(content) is bytes
        good = whole and dtype.arguments[0] in (b"u1", "u1") and not fortran and rows * columns == len(content)
    except (TypeError, ValueError, AttributeError, IndexError):
        good = False
    if not good:
        raise ValueError(f"{name} is not an official CIFAR file: its array is not rows of bytes")
    return np.frombuffer(content, dtype=np.uint8).reshape(rows, columns)
