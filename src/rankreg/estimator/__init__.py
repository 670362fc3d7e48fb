"""The method as a scikit-learn classifier."""

from rankreg.estimator.classifier import RankRegClassifier

__all__ = ["RankRegClassifier"]
