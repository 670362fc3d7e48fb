"""
A table of claims: from a CSV file to alarms
============================================

You have a table. One class is rare, and a miss is expensive. You want a model, a threshold that
catches 90 % of the rare class, and an honest price. Here the table holds insurance claims, and the
rare class is fraud. We make the table ourselves, so the true answer is known. Settings of the
table were changed after we had seen results. So the numbers are an example, not evidence.

The same steps work from the command line. Each command is shown beside its Python call.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from rankreg.bundle import evaluate, load_bundle, predict
from rankreg.fit import Source, describe, fit, read_source
from rankreg.metrics import roc

folder = Path(tempfile.mkdtemp())

# %%
# The table
# ---------
# 4 % of the claims are fraud. The file looks like an export from an office: semicolons, decimal
# commas, German dates, a question mark where nobody knew the age of the car.


def make_claims(rows: int, seed: int) -> pd.DataFrame:
    """Claims of one company; fraud is more likely for large amounts, young policies and some garages."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(rows) < 0.04
    amount = rng.lognormal(7.3 + 1.4 * fraud, 0.6)
    policy_days = rng.gamma(np.where(fraud, 0.9, 3.0), 300)
    garage = np.where(
        rng.random(rows) < np.where(fraud, 0.6, 0.1), "Schulz", rng.choice(["Meyer", "Kaya", "Novak"], rows)
    )
    car_age = rng.integers(0, 20, rows).astype(str)
    car_age[rng.random(rows) < 0.1] = "?"
    day = pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 365, rows), unit="D")
    return pd.DataFrame(
        {
            "claim": [f"C-{seed}-{row:05d}" for row in range(rows)],
            "day": day.strftime("%d.%m.%Y"),
            "amount": [f"{value:.2f}".replace(".", ",") for value in amount],
            "policy_days": policy_days.round().astype(int),
            "garage": garage,
            "car_age": car_age,
            "recovered": np.where(fraud, rng.integers(100, 900, rows), 0),  # known only after the outcome
            "fraud": np.where(fraud, "yes", "no"),
        }
    )


claims = make_claims(2000, seed=1)
claims.to_csv(folder / "claims.csv", sep=";", index=False)
print(claims.head(3).to_string(index=False))

# %%
# Look before you train
# ---------------------
# ``rankreg fit claims.csv --target fraud --positive yes --describe`` says how every column is read.
# In Python:

source = Source(folder / "claims.csv", target="fraud", positive="yes")
description = describe(read_source(source, folder / "decoded"))
print("\n".join(description))

# %%
# The first line is a warning. ``recovered`` alone tells fraud from the rest, almost perfectly. The
# money is recovered *after* a fraud is found, so a new claim does not have it. We drop the column.
# rankreg names such columns and removes nothing by itself.
#
# The other lines are worth a look too. The claim number is left out as an identifier. The day
# became a date, the question marks became missing values.
#
# Fit
# ---
# ``rankreg fit claims.csv --target fraud --positive yes --drop recovered --id claim
# --tpr 0.9 --out model``
#
# Every learner trains on four fifths of the rows and scores the last fifth, in turn. So every fraud
# trains the model, and every fraud judges it.

source = Source(folder / "claims.csv", target="fraud", positive="yes", drop=("recovered",), id_column="claim")
fitted = fit(source, folder / "model", tpr=0.9, progress=False)
threshold = fitted.threshold
print(f"{threshold.kind} threshold: alarm when score ≥ {threshold.value:.3f}")
print(f"chosen by {threshold.calibration_positives} frauds, for a recall of {threshold.tpr:.0%}")
print(f"false alarms per 1,000 honest claims: {1000 * fitted.judged.fpr.estimate:.0f}")

# %%
# *Cross-fitted* is not *certified*. Simulations show that the recall is reached with 95 %
# confidence. Proven is only that it is at least 80 % on average. A proof of 90 % needs at least 29
# frauds that train nothing. This table would lose more than a third of its frauds.
#
# Which learner was the best? The intervals overlap widely, so these data do not tell the learners
# apart. That is one reason to average them instead of picking a winner.

for one in fitted.race:
    print(f"{one.name:16} FPR at 90 % TPR {one.fpr.estimate:6.1%}  ({one.fpr.low:.1%} to {one.fpr.high:.1%})")

# %%
# The average seems to reach 90 % recall with fewer false alarms than the threshold above costs. But
# the race places its threshold so that exactly 90 % of *these* frauds are caught. Such a threshold
# misses 90 % of new frauds about half of the time. The fitted threshold leaves a margin. With few
# frauds the margin is wide, and it is paid in false alarms.
#
# Score new claims
# ----------------
# ``rankreg predict model new.csv --out scores.csv``
#
# New claims have no label and nothing recovered yet. One of them is broken: its amount is a word.
# A row that cannot be scored raises an alarm and is named. It never passes in silence.

new = make_claims(1000, seed=2).drop(columns=["recovered", "fraud"])
new.loc[7, "amount"] = "see letter"
new.to_csv(folder / "new.csv", sep=";", index=False)
predicted = predict(load_bundle(folder / "model"), folder / "new.csv", folder / "scores.csv")
print(f"{predicted.samples} claims, {predicted.alarms} alarms, {predicted.unreadable} could not be scored")
print(pd.read_csv(folder / "scores.csv").iloc[5:10].to_string(index=False))

# %%
# Did the promise hold?
# ---------------------
# ``rankreg evaluate model labelled.csv --out labelled-scores.csv``
#
# In real life the labels of new claims come late and few. Here we can make 20,000 labelled claims
# and look at the truth.

make_claims(20_000, seed=3).to_csv(folder / "labelled.csv", sep=";", index=False)
bundle = load_bundle(folder / "model")
truth = evaluate(bundle, folder / "labelled.csv", out=folder / "labelled-scores.csv").evaluation
for name, share in [("recall", truth.recall), ("FPR", truth.fpr), ("precision", truth.precision)]:
    print(f"{name:10} {share.estimate:6.1%}  ({share.low:.1%} to {share.high:.1%})")

# %%
# The recall is above 90 %, as promised. The FPR is somewhat lower than out of fold. A new claim is
# scored by the average of all members. A row of the table is scored only by the few members that
# have not seen it. This is one draw of a table.
# :doc:`Decision 0045 </decisions/0045-cross-fitting>` shows how often the recall holds over many
# draws.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
scored = pd.read_csv(folder / "labelled-scores.csv")
labels, scores = scored["label"].to_numpy(), scored["score"].to_numpy()
bins = np.linspace(scores.min(), scores.max(), 60)
left.hist(scores[labels == 0], bins, density=True, alpha=0.6, label="honest")
left.hist(scores[labels == 1], bins, density=True, alpha=0.6, label="fraud")
left.axvline(threshold.value, color="black", linestyle="--", label="threshold")
left.set(xlabel="score", ylabel="density", title="20,000 new claims", xlim=(0, 8))
left.legend()
curve = roc(labels, scores)
right.plot(curve.fpr, curve.tpr)
right.plot(truth.fpr.estimate, truth.recall.estimate, "ko", label="threshold in use")
right.axhline(0.9, color="grey", linewidth=0.8, linestyle=":", label="promised recall")
right.set(
    xlabel="FPR", ylabel="recall", title="What another threshold would cost", xlim=(0, 0.5), ylim=(0.7, 1.005)
)
right.legend(loc="lower right")
plt.show()

# %%
# What the leak would have done
# -----------------------------
# Keep ``recovered``, and the model looks perfect out of fold. Then new claims come in, and nothing
# has been recovered on any of them.

leaky = Source(folder / "claims.csv", target="fraud", positive="yes")
leaked = fit(leaky, folder / "leaked", tpr=0.9, learners=["boosting"], progress=False)
fresh = make_claims(20_000, seed=3).assign(recovered=0)
fresh.to_csv(folder / "fresh.csv", sep=";", index=False)
leaked_truth = evaluate(load_bundle(folder / "leaked"), folder / "fresh.csv").evaluation
print(f"out of fold: recall {leaked.judged.recall.estimate:.1%}, FPR {leaked.judged.fpr.estimate:.1%}")
print(f"new claims:  recall {leaked_truth.recall.estimate:.1%}, FPR {leaked_truth.fpr.estimate:.1%}")

# %%
# No statistic of the training rows can show this: in them the column is filled in. You must know
# when a column is filled in.
#
# Decide
# ------
# Use the model if catching nine frauds in ten is worth that many false alarms.
# ``model/report.html`` shows this price to the person who decides, with sliders for other targets.

print(sorted(path.name for path in (folder / "model").iterdir()))

# %%
# Next
# ----
# - Watch the threshold in use: :doc:`operating_point`.
# - Too few positives for a confidence? See :doc:`/how-to/few-positives`.
# - Run the model without Python's heavy parts: :doc:`/how-to/onnx-without-torch`.
# - All options of the command: ``rankreg fit --help``, and :doc:`/guide/own-data`.
