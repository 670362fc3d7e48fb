"""The runs of a grid, side by side on this machine's cores or on a cluster; finished ones are never repeated."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Literal

from rankreg._cores import cores
from rankreg.bench.planning import Plan, unique
from rankreg.bench.records import Records
from rankreg.bench.workers import Answer, Place, Pool, local_pool

Backend = Literal["loky", "dask"]
Report = Callable[[Plan, str], None]
DEATHS = 2  # of workers, without any run finishing in between, after which runs are attempted one by one
PATIENCE = 2.0  # seconds between two looks at what another bench is doing


@dataclass
class Summary:
    """What became of the runs, by name; failed ones with the reason."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def run_all(
    plans: Iterable[Plan],
    place: Place,
    *,
    workers: int | None = None,
    on: Backend = "loky",
    address: str | None = None,
    report: Report = lambda plan, state: None,
) -> Summary:
    """Train what has no record yet, in the order given, and record each run as it comes in.

    report: called with every plan that is "done" or "failed", and once with each that is "busy": another bench, or
    what a killed one left on a cluster, is at it, and it is waited for. Workers that die take their run with them;
    it is tried again, from its last checkpoint. ValueError if no run has the data it needs.
    """
    ledger = _Ledger(Records(place.records), place, report)
    left = [plan for plan in unique(plans) if not ledger.records.has(plan)]
    if not left:
        return ledger.summary
    with _pool(on, workers or cores(), address) as pool:
        left = ledger.with_data(left, pool)
        while left:
            with closing(_persistently(left, place, pool)) as answers:
                again = [answer.plan for answer in answers if not ledger.settled(answer)]
            left = ledger.patiently(again)
    return ledger.summary


@contextmanager
def _pool(on: Backend, workers: int, address: str | None) -> Iterator[Pool]:
    if on == "loky":
        with local_pool(workers) as pool:
            yield pool
    else:
        from rankreg.bench.cluster import cluster_pool

        with cluster_pool(address) as pool:
            yield pool


def _persistently(plans: Sequence[Plan], place: Place, pool: Pool) -> Generator[Answer]:
    """An answer for every plan, also when workers die: what they were at is attempted again, in the end alone."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    left, deaths = list(plans), 0
    while left:
        alone = deaths >= DEATHS  # loky ends all workers with the one that died: who was the reason?
        try:
            with closing(pool.attempts(left[:1] if alone else left[:], place)) as answers:  # left changes meanwhile
                for answer in answers:
                    left.remove(answer.plan)
                    deaths = 0
                    yield answer
        except TerminatedWorkerError as error:
            deaths += 1
            if alone:
                reason = " ".join(str(error).split())
                words = f"its worker died, also without others beside it: is memory short? ({reason})"
                yield Answer(left.pop(0), reason="failed", message=words)


@dataclass(frozen=True)
class _Ledger:
    """What is settled, and how."""

    records: Records
    place: Place
    report: Report
    summary: Summary = field(default_factory=Summary)
    told: set[str] = field(default_factory=set)  # of which it was said that they are busy

    def with_data(self, plans: Sequence[Plan], pool: Pool) -> list[Plan]:
        """Those whose data are there; the others are failures before they start."""
        missing = pool.missing(sorted({plan.loader for plan in plans}), self.place.data)
        if all(plan.loader in missing for plan in plans):
            raise ValueError("\n".join(dict.fromkeys(missing.values())))
        for plan in plans:
            if plan.loader in missing:
                self.settled(Answer(plan, reason="failed", message=missing[plan.loader]))
        return [plan for plan in plans if plan.loader not in missing]

    def settled(self, answer: Answer) -> bool:
        """Note the outcome or the failure; False if the run must be attempted again."""
        plan = answer.plan
        if answer.outcome is not None and not self.records.has(plan):
            self.records.write(plan, answer.outcome)  # the worker has another disk
        if self.records.has(plan):  # or by another bench, whatever came of it here
            self.summary.done.append(plan.name)
            self.report(plan, "done")
        elif answer.reason == "failed":
            self.summary.failed[plan.name] = answer.message
            self.report(plan, "failed")
        else:
            if answer.reason == "busy" and plan.name not in self.told:
                self.told.add(plan.name)
                self.report(plan, "busy")
            return False
        return True

    def patiently(self, plans: list[Plan]) -> list[Plan]:
        """The same plans, once one of them is recorded or free."""
        while plans and not any(self.records.has(plan) or not self.place.in_use(plan) for plan in plans):
            time.sleep(PATIENCE)
        return plans
