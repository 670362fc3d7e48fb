"""The tool: from a table or a folder of images to a model with a threshold whose recall holds.

`fit` reads the data a `Source` describes, cross-fits an average of learners, chooses the threshold, judges
the model and saves it. `settings` says how networks are trained.
"""

from rankreg.datasets.images import suspected_groups
from rankreg.datasets.table import describe
from rankreg.fit.learners import LEARNERS
from rankreg.fit.pipeline import Fitted, fit
from rankreg.fit.sources import Source, load_source, read_source
from rankreg.train.defaults import settings

__all__ = [
    "LEARNERS",
    "Fitted",
    "Source",
    "describe",
    "fit",
    "load_source",
    "read_source",
    "settings",
    "suspected_groups",
]
