"""Certified thresholds beside MAPIE's: recall, FPR, precision and two at once; MAPIE in an environment of its own.

    python -m benchmarks.mapie_peer draw scores.npz               # 60 draws of N(2, 1) against N(0, 1)
    mapie/bin/python benchmarks/mapie_peer.py peer scores.npz     # after `mapie/bin/pip install mapie==1.6.*`
    python -m benchmarks.mapie_peer table scores.npz              # our thresholds, records, table

A sample has n positives and 10 n negatives on average. MAPIE gets the true probability of a positive in a balanced
population. Its fixed sequence starts at the end where a promise is easiest to keep.
"""

import argparse
import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np

RECORDS = Path("records/operating/mapie.csv")
DRAWS, CONFIDENCE, SIZES = 60, 0.95, (100, 200, 400, 1000)
# what is promised, and from which end of the thresholds a fixed sequence starts
TARGETS = {
    "recall ≥ 95 %": ({"recall": 0.95}, "low"),
    "FPR ≤ 10 %": ({"fpr": 0.1}, "high"),
    "precision ≥ 70 %": ({"precision": 0.7}, "high"),
    "recall ≥ 80 % and FPR ≤ 20 %": ({"recall": 0.8, "fpr": 0.2}, "low"),
}


def draw(path: Path) -> None:
    """Write the samples."""
    random = np.random.default_rng(19)
    samples: dict[str, Any] = {}
    for size in SIZES:
        for number in range(DRAWS):
            positives = random.binomial(11 * size, 1 / 11)
            labels = np.repeat([1, 0], [positives, 11 * size - positives])
            samples[f"{size}-{number}"] = np.stack([labels, random.normal(2.0 * labels, 1)])
    np.savez_compressed(path, **samples)


def peer(path: Path) -> None:
    """MAPIE's thresholds, as scores; nan where it refuses."""
    from mapie import __version__
    from mapie.risk_control import BinaryClassificationController

    def probability(scores: np.ndarray) -> np.ndarray:
        chance = 1 / (1 + np.exp(2 - 2 * np.ravel(scores)))
        return np.stack([1 - chance, chance], axis=1)

    lines = []
    for name, sample in np.load(path).items():
        for target, (promises, end) in TARGETS.items():
            for method in ("bonferroni_holm", "fixed_sequence")[
                : 3 - len(promises)
            ]:  # one promise only for the last
                grid = np.linspace(0, 0.99, 100)
                controller = BinaryClassificationController(
                    probability,
                    risk=list(promises) if len(promises) > 1 else next(iter(promises)),
                    target_level=list(promises.values()) if len(promises) > 1 else next(iter(promises.values())),
                    confidence_level=CONFIDENCE,
                    best_predict_param_choice="recall" if end == "high" else "precision",
                    list_predict_params=grid if end == "low" else grid[::-1],
                    fwer_method=method,
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    controller.calibrate(sample[1][:, None], sample[0].astype(int))
                best = controller.best_predict_param
                threshold = np.nan if best is None else (np.log(best / (1 - best)) + 2) / 2 if best > 0 else -np.inf
                lines.append((name, target, f"MAPIE {__version__} {method}", repr(float(threshold))))
    with path.with_suffix(".mapie.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def table(path: Path) -> None:
    """Our thresholds beside theirs: true recall and FPR, a line per promise, method and size."""
    from scipy.special import ndtr

    from rankreg.operating import certify_promises

    names = {"recall": "tpr", "fpr": "fpr", "precision": "precision"}
    lines: list[tuple[str, ...]] = []
    for name, sample in np.load(path).items():
        for target, (promises, _) in TARGETS.items():
            asked: dict[str, Any] = {names[key]: value for key, value in promises.items()}
            found = certify_promises(sample[0], sample[1], **asked, confidence=CONFIDENCE).threshold
            lines.append((name, target, "rankreg", repr(float("nan") if found is None else found)))
    with path.with_suffix(".mapie.csv").open(newline="") as file:
        lines += [tuple(line) for line in csv.reader(file)]
    records = []
    for target, (promises, _) in TARGETS.items():
        for method in dict.fromkeys(line[2] for line in lines):
            for size in SIZES:
                found_here = np.array(
                    [float(v) for n, t, m, v in lines if (t, m) == (target, method) and n.startswith(f"{size}-")]
                )
                given = found_here[~np.isnan(found_here)]
                recall, fpr = ndtr(2 - given), ndtr(-given)
                wrong = np.zeros(len(given), dtype=bool)
                for key, value in promises.items():
                    shares = {"recall": recall, "fpr": -fpr, "precision": recall / (recall + 10 * fpr)}
                    wrong |= shares[key] < (value if key != "fpr" else -value)
                means = [round(100 * float(np.mean(x)), 1) if len(given) else "" for x in (recall, fpr)]
                records.append((target, method, size, len(found_here), len(given), int(wrong.sum()), *means))
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    header = ("promise", "method", "positives", "draws", "given", "broken", "mean true recall", "mean true FPR")
    with RECORDS.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *records])
    print(markdown(records))


def markdown(records: list[tuple[Any, ...]]) -> str:
    """The table: for a recall the FPR (lower is better), for everything else the recall (higher is better)."""
    methods = list(dict.fromkeys(line[1] for line in records))
    out = [f"| promise | positives | {' | '.join(methods)} |", "|---" * (2 + len(methods)) + "|"]
    by_key = {line[:3]: line[3:] for line in records}
    for target in TARGETS:
        for size in SIZES:
            cells = []
            for method in methods:
                draws, given, broken, recall, fpr = by_key[target, method, size]
                if not draws:
                    cells.append("not offered")
                    continue
                value = f"FPR {fpr}" if target.startswith("recall") else f"recall {recall}"
                refused = f", refuses {draws - given} of {draws}" if given < draws else ""
                cells.append(f"{value}{refused}, broken {broken}" if given else "always refuses")
            out.append(f"| {target} | {size:,} | {' | '.join(cells)} |")
    return "\n".join(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["draw", "peer", "table"])
    parser.add_argument("scores", type=Path)
    given_arguments = parser.parse_args()
    {"draw": draw, "peer": peer, "table": table}[given_arguments.command](given_arguments.scores)
