"""
An operating point that you can defend
======================================

Someone asks you: "At which score do we raise the alarm, what do we promise, and what does it cost?"
You have scores and labels, and perhaps not even the model. This page goes the whole way: choose a
threshold, promise something, compare two models, and watch the threshold once it is in use.

The scores come from two models of a screening test. We make the patients ourselves, so that we can
look up at the end whether the promises held. Some settings of these patients were changed after we
had seen results, so that every step has something to show. So the page is an example, not evidence.
Nothing here imports torch.
"""

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from rankreg.operating import (
    certify,
    certify_promises,
    certify_review,
    compare,
    drift,
    monitor,
    positives_until_alarm,
    recertify,
)

# %%
# The scores
# ----------
# 5 % of the patients are ill. Model *new* separates them a little better than model *old*. Both
# score the same patients, so their errors are related.


def screen(
    patients: int, seed: int, *, change: float = 0.0, fainter: float = 0.0
) -> dict[str, NDArray[np.float64]]:
    """Labels and scores of two models; `change` moves all scores, `fainter` those of the ill."""
    rng = np.random.default_rng(seed)
    ill = (rng.random(patients) < 0.05).astype(float)
    common = rng.normal(size=patients)
    new = 2.5 * ill + 0.8 * common + 0.6 * rng.normal(size=patients) + change - fainter * ill
    old = 2.2 * ill + 0.8 * common + 0.6 * rng.normal(size=patients) + change - fainter * ill
    return {"ill": ill, "new": new, "old": old}


calibration = screen(4000, seed=1)
ill, new, old = calibration["ill"], calibration["new"], calibration["old"]
print(f"{len(ill):,} patients, {ill.sum():.0f} of them ill")

# %%
# Choose
# ------
# The target was fixed before anyone saw the scores: at least 95 % of the ill raise an alarm. The
# usual way is to place the threshold where 95 % of these ill patients lie above it. On new patients
# this misses the target about half of the time. ``certify`` takes a slightly lower threshold and
# promises the 95 % with a confidence of 95 %.
#
# On files: ``rankreg certify scores.csv --label ill --score new --tpr 0.95 --json > point.json``

point = certify(ill, new, tpr=0.95, confidence=0.95)
usual = point.uncertified
print(f"usual      alarm when score ≥ {usual.threshold:.2f}, FPR {usual.fpr:.1%}")
print(f"certified  alarm when score ≥ {point.threshold:.2f}, FPR {point.fpr:.1%}")
print(f"chance that the recall is below 95 %: usual {usual.shortfall_risk:.0%}, certified at most 5 %")

# %%
# Does it hold? We made the scores: those of the ill have a normal distribution around 2.5. So we
# can repeat the choice on 400 fresh samples and compute the true recall of each threshold.


def true_recall(threshold: float) -> float:
    """The share of all future ill patients that score at or above the threshold."""
    return float(norm.sf(threshold, loc=2.5))


recalls: dict[str, list[float]] = {"usual": [], "certified": []}
for seed in range(1000, 1400):
    sample = screen(4000, seed=seed)
    again = certify(sample["ill"], sample["new"])
    recalls["usual"].append(true_recall(again.uncertified.threshold))
    recalls["certified"].append(true_recall(again.threshold))

broken = {name: float(np.mean(np.array(values) < 0.95)) for name, values in recalls.items()}
figure, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
for name, values in recalls.items():
    axis.hist(values, np.arange(0.9, 1, 0.004), alpha=0.6, label=f"{name}: {broken[name]:.0%} below the target")
axis.axvline(0.95, color="black", linestyle="--")
axis.set(xlabel="true recall", ylabel="samples of 400", title="The same choice on 400 fresh samples")
axis.legend()
plt.show()

# %%
# Promise more than a recall
# --------------------------
# Management also wants at most 5 % false alarms. Both promises share one confidence.

wish = certify_promises(ill, new, tpr=0.95, fpr=0.05)
conflict = wish.conflicts[0]
print("threshold:", wish.threshold)
for closest in conflict.closest:
    print(f"if {closest.keeps} stays: {closest.name} could be {closest.target:.1%}")
print("more samples would settle it:", conflict.more_positives is not None)

# %%
# No threshold keeps both. The answer also says that more data will not help: the two shares
# conflict in this sample, so it takes a better model or another wish. The closest promises were
# found by looking at these patients. Certify one of them on fresh patients before you rely on it.
#
# A person can take the doubtful ones
# -----------------------------------
# Two thresholds give three answers. At or above the upper one, at least 80 % of the alarms are
# real. Below the lower one, patients are dismissed. Between the two, a doctor looks.

review = certify_review(ill, new, tpr=0.95, precision=0.8)
print(f"alarm    from {review.alarm_from:.2f}: {review.alarms_per_1000:4.0f} of 1,000 patients")
print(
    f"review   from {review.review_from:.2f}: {review.review_per_1000:4.0f} of 1,000 patients,"
    f" at most {review.review_per_1000_at_most:.0f}"
)

figure, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
bins = np.linspace(-4, 6, 80)
axis.hist(new[ill == 0], bins, density=True, alpha=0.6, label="not ill")
axis.hist(new[ill == 1], bins, density=True, alpha=0.6, label="ill")
axis.axvspan(review.review_from, review.alarm_from, color="gold", alpha=0.25, label="review")
axis.axvspan(review.alarm_from, 6, color="firebrick", alpha=0.2, label="alarm")
axis.axvline(point.threshold, color="black", linestyle="--", label="one threshold, 95 %")
axis.set(xlabel="score", ylabel="density", title="Dismiss, review, alarm", xlim=(-4, 6))
axis.legend()
plt.show()

# %%
# Is the new model better?
# ------------------------
# Compare on the same patients. ``compare`` shows *a* − *b*, and *a* is the new model. So a negative
# difference of the FPR favours the new model.

whole = compare(ill, new, old)
part = compare(ill[:1000], new[:1000], old[:1000])
for name, found in [("4,000 patients", whole), ("first 1,000", part)]:
    fpr = found.fpr
    print(
        f"{name:15} FPR at 95 % TPR: {fpr.a:.1%} − {fpr.b:.1%} = {fpr.difference:+.1%}"
        f"  ({fpr.low:+.1%} to {fpr.high:+.1%}), p = {fpr.p_value:.3f}"
    )

# %%
# With all patients the difference is significant. With the first 1,000 it is not: about 50 ill
# patients say little about a recall of 95 %. *Not significant* does not mean *equal*. It means that
# these data cannot tell.
#
# Watch it in use
# ---------------
# The threshold is in use. Two things can change, and two tests look for them:
#
# - ``monitor`` needs confirmed ill patients. It asks whether the recall has fallen below 95 %.
# - ``drift`` needs no labels. It asks whether scores still come as they did.
#
# You may look after every patient: the chance that a test ever raises a false alarm is at most 5 %.
#
# In one clinic the illness becomes harder to see. In the other a new device raises all scores a
# little. Which test notices?

clinics = {
    "ill patients score lower": screen(6000, seed=5, fainter=0.6),
    "all scores are higher": screen(6000, seed=6, change=0.3),
}
watches, drifts = {}, {}
figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), sharey=True, layout="constrained")
for axis, (name, stream) in zip(axes, clinics.items(), strict=True):
    confirmed = stream["ill"] == 1
    watch = monitor(stream["new"][confirmed], threshold=point.threshold, tpr=0.95)
    shift = drift(new, stream["new"])
    watches[name], drifts[name] = watch, shift
    axis.plot(np.flatnonzero(confirmed), watch.path, label="recall (confirmed ill patients)")
    axis.plot(shift.path, label="drift (all scores, no labels)")
    axis.axhline(20, color="black", linestyle="--", linewidth=0.8)
    axis.set(yscale="log", ylim=(1e-3, 1e4), xlabel="patients seen", title=name)
axes[0].set_ylabel("evidence (alarm at 20)")
axes[0].legend()
plt.show()

for name in clinics:
    print(
        f"{name}: recall {watches[name].recall:.1%}, monitor alarms at {watches[name].alarm_at},"
        f" drift alarms at {drifts[name].alarm_at}"
    )

# %%
# Each test sees its own change and not the other one. The ill are rare, so their change is lost
# among all scores. Higher scores do not lower the recall, but they raise the number of alarms.
# Drift is a reason to look, not a verdict.
#
# No alarm is no proof either. Ask how long a fall would stay unseen:

quiet = watches["all scores are higher"]
until = positives_until_alarm(quiet, recall=0.85)
print(f"a fall to 85 % would be noticed after about {until:.0f} more confirmed ill patients")

# %%
# After an alarm
# --------------
# Label a sample of new patients, check the threshold in use, and certify a new one.

sick = clinics["ill patients score lower"]
checked = recertify(sick["ill"], sick["new"], threshold=point.threshold)
print(
    f"{checked.verdict}: recall {checked.recall.estimate:.1%}"
    f" ({checked.recall.low:.1%} to {checked.recall.high:.1%})"
)
print(
    f"new threshold {checked.point.threshold:.2f} instead of {point.threshold:.2f},"
    f" FPR {checked.point.fpr:.1%} instead of {point.fpr:.1%}"
)

# %%
# Decide
# ------
# What you can now defend: the threshold, the promise and its confidence, the price per 1,000
# patients, the comparison with the old model, and the plan for watching it. What you cannot
# promise: that new patients come like the old ones. That is what the last two tests are for.
#
# Next
# ----
# - The same from files, with dates: :doc:`/guide/operating-point`.
# - Several rows of one patient are not independent. Name the patient: ``units=`` or ``--unit``.
# - How often promises hold, by simulation: :doc:`/guarantees`.
# - A page for those who decide:
#   ``rankreg report old.csv new.csv --label ill --score s --out report.html``.
