"""A model that can be used tomorrow: weights, preprocessing and threshold in one folder, read without executing
anything."""

from rankreg.bundle.card import BundleCard, Threshold, Weights
from rankreg.bundle.evaluation import Evaluation, evaluate_scores, write_scores
from rankreg.bundle.files import Bundle, load_bundle, save_bundle
from rankreg.bundle.words import evaluation_lines, promise_lines

__all__ = [
    "Bundle",
    "BundleCard",
    "Evaluation",
    "Threshold",
    "Weights",
    "evaluate_scores",
    "evaluation_lines",
    "load_bundle",
    "promise_lines",
    "save_bundle",
    "write_scores",
]
