"""Where to look next: Optuna's tree of Parzen estimators, seeded anew for every trial."""

import warnings
from collections.abc import Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from rankreg.train.sampling import derived_seed

STARTUP = 10  # trials before it trusts what it has seen


class SeededSampler(BaseSampler):
    """TPE whose draws for a trial depend on the seed and the trial's place only, so that a search that was killed
    and started again goes on as if it had not been; failed trials take no place."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.inner = _tpe(seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        failed = study.get_trials(deepcopy=False, states=(TrialState.FAIL,))
        place = trial.number - sum(other.number < trial.number for other in failed)
        self.inner = _tpe(derived_seed(self.seed, place) % 2**32)
        self.inner.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self.inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self.inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self.inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        self.inner.after_trial(study, trial, state, values)


def _tpe(seed: int) -> TPESampler:
    """Settings that belong together are sampled together, each method's for itself; trials that other processes
    have under way count as bad ones, so that two do not try the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return TPESampler(seed=seed, n_startup_trials=STARTUP, multivariate=True, group=True, constant_liar=True)
