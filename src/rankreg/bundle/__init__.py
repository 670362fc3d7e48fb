"""A fitted model on disk: save, load, predict, evaluate, export.

Weights, preprocessing and threshold are data, never code: nothing in a bundle is executed.
"""

from rankreg.bundle.card import BundleCard, Threshold
from rankreg.bundle.evaluation import Evaluation
from rankreg.bundle.onnx_file import Exported, export_onnx
from rankreg.bundle.prediction import Evaluated, Predicted, evaluate, predict
from rankreg.bundle.storage import Bundle, load_bundle

__all__ = [
    "Bundle",
    "BundleCard",
    "Evaluated",
    "Evaluation",
    "Exported",
    "Predicted",
    "Threshold",
    "evaluate",
    "export_onnx",
    "load_bundle",
    "predict",
]
