"""A bundle at work: `predict` scores new data as a stream, `evaluate` measures it on labelled data."""

from rankreg.predict.evaluating import Evaluated, evaluate
from rankreg.predict.reading import Chunk, read_chunks
from rankreg.predict.writing import Predicted, predict

__all__ = ["Chunk", "Evaluated", "Predicted", "evaluate", "predict", "read_chunks"]
