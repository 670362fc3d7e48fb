"""Reading a CIFAR pickle as data: nothing in it can name a function to run.

The official files hold a dictionary of strings, numbers, lists and one numpy array. The three numpy names that an
array is pickled with are answered by plain records made for the occasion, every other name is refused, and the
array is built here from its checked bytes.
"""

import io
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_FILE = 400_000_000  # bytes; the largest official file has 155 million


def read_pickle(content: bytes, name: str) -> dict[bytes, Any]:
    """The dictionary in an official CIFAR file, its array as uint8 rows."""
    try:
        loaded = _Reader(io.BytesIO(content)).load()
    except Exception as error:  # hostile bytes can make the reader raise anything
        raise ValueError(f"{name} is not an official CIFAR file or is damaged: {error}") from error
    if not isinstance(loaded, dict):
        raise ValueError(f"{name} is not an official CIFAR file: it holds no dictionary")
    return {key: _array(value, name) if hasattr(value, "array_state") else value for key, value in loaded.items()}


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
        good = dtype.arguments[0] in (b"u1", "u1") and not fortran and rows * columns == len(content)
    except (TypeError, ValueError, AttributeError, IndexError):
        good = False
    if not good or not isinstance(content, bytes):
        raise ValueError(f"{name} is not an official CIFAR file: its array is not rows of bytes")
    return np.frombuffer(content, dtype=np.uint8).reshape(rows, columns)
