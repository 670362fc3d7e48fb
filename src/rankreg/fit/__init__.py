"""From a table or a folder of images to a bundle with a certified threshold: `fit(source, options, out)`."""

from rankreg.fit.pipeline import Fitted, check_request, fit, settings
from rankreg.fit.sources import Source, load_source
from rankreg.fit.summary import next_steps, summary_lines
from rankreg.train.config import DEFAULTS

__all__ = [
    "DEFAULTS",
    "Fitted",
    "Source",
    "check_request",
    "fit",
    "load_source",
    "next_steps",
    "settings",
    "summary_lines",
]
