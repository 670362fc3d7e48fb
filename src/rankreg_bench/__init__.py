"""The bench: regenerates the tables and figures of the paper beside the published numbers, resumably.

It uses only the public names of `rankreg`. Grids, records, tables and figures need no torch; training does.

>>> from rankreg_bench import EXPERIMENTS, plans_of
>>> EXPERIMENTS["rank-penalty"].title, len(plans_of("rank-penalty", "compact"))
('Rank penalties', 24)
"""

from rankreg_bench.grids import EXPERIMENTS, plans_of
from rankreg_bench.pages import rendered
from rankreg_bench.queue import Place, run_all
from rankreg_bench.records import Selection
from rankreg_bench.tables import pages_of

__all__ = ["EXPERIMENTS", "Place", "Selection", "pages_of", "plans_of", "rendered", "run_all"]
