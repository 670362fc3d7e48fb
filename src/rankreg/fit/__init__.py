"""The tool: from a table or a folder of images to a model with a certified threshold.

`load_source` cuts the data into parts, `settings` says how to train, and `fit` trains, certifies, tests and saves.
"""

from rankreg.fit.pipeline import Fitted, fit, settings
from rankreg.fit.sources import Source, load_source

__all__ = ["Fitted", "Source", "fit", "load_source", "settings"]
