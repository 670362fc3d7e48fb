"""`make tables`: the pages of docs/tables and the pages on results, from the records."""

from pathlib import Path

from docs.results_pages import DOCS, PAGES, page
from rankreg.cli import app

FOLDER = Path(__file__).parent / "tables"
ONLY_BCE = ("--only", "bce")  # other losses were not run
BY_LOSS = ("--data", "cifar10-100", "--data", "cifar100-100")
TABLES: dict[str, tuple[str, ...]] = {
    **{
        name: ("table", name)
        for name in (
            *("cifar10-100", "cifar100-100", "controls", "rank-penalty", "buffer-policy", "buffer-size"),
            *("smaller-buffers", "more-positives", "oversampled-ranking", "larger-batches", "last-epoch"),
            *("passing-each-other", "label-noise", "multiclass", "ham10000", "tuning", "ranking-settings"),
            *("methods", "elpv"),
        )
    },
    "cifar10-200": ("table", "cifar10-200", *ONLY_BCE),
    "cifar100-200": ("table", "cifar100-200", *ONLY_BCE),
    "rankreg-against-buffer": ("compare", "rankreg", "buffer", "--brief"),
    "rankreg-against-buffer-by-loss": ("compare", "rankreg", "buffer", *BY_LOSS),
    "default-against-buffer": ("compare", "among-negatives-weight-0.1", "buffer", "--brief"),
}

if __name__ == "__main__":
    for name, command in TABLES.items():
        app(["bench", *command, "--out", str(FOLDER / f"{name}.md")], standalone_mode=False)
    for name in PAGES:
        (DOCS / name).write_text(page(name))
