"""Operating points for any scikit-learn classifier: a scorer to search with, a certified threshold. No torch."""

from rankreg.thresholding.classifier import CertifiedThresholdClassifier
from rankreg.thresholding.scorers import make_fpr_at_tpr_scorer

__all__ = ["CertifiedThresholdClassifier", "make_fpr_at_tpr_scorer"]
