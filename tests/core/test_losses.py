"""The base losses against their formulas in numpy, PyTorch's own, and gradcheck."""

import shutil

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from rankreg import LOSSES, make_loss
from rankreg.losses import PUBLISHED, asymmetric_focal, cross_entropy, ldam, symmetric_focal
from tests.conftest import to_numpy

COUNTS = (4410, 44)
SCORES = torch.linspace(-6, 6, 25, dtype=torch.float64)
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")


Floats = NDArray[np.float64]


def formula(name: str, s: Floats, y: Floats) -> Floats:
    """Every loss as the literature prints it, in probabilities, at its default setting."""

    def bce(s: Floats) -> Floats:
        p = 1 / (1 + np.exp(-s))
        return np.asarray(-np.where(y == 1, np.log(p), np.log(1 - p)))

    p = 1 / (1 + np.exp(-s))
    p_true = np.where(y == 1, p, 1 - p)
    effective = np.where(y == 1, 1 - 0.99**44, 1 - 0.99**4410) / (1 - 0.99)
    margins = 0.5 * np.where(y == 1, 1.0, (44 / 4410) ** 0.25)
    losses: dict[str, Floats] = {
        "bce": bce(s),
        "s-ml": bce(s - np.where(y == 1, 0.5, -0.5)),
        "a-ml": bce(s - np.where(y == 1, 0.5, 0)),
        "s-fl": (1 - p_true) ** 0.5 * bce(s),
        "a-fl": np.where(y == 1, 1, p) * bce(s),
        "cb-bce": bce(s) / effective,
        "w-bce": np.where(y == 1, 4410 / 44, 1) * bce(s),
        "ldam": np.logaddexp(0, np.where(y == 1, -30 * (s - margins), 30 * (s + margins))),
    }
    return losses[name]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("label", [0, 1])
def test_the_loss_is_its_formula(name: str, label: int) -> None:
    labels = torch.full_like(SCORES, label)
    computed = to_numpy(make_loss(name, counts=COUNTS)(SCORES, labels))
    np.testing.assert_allclose(computed, formula(name, to_numpy(SCORES), to_numpy(labels)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_passes_gradcheck(name: str) -> None:
    loss = make_loss(name, counts=COUNTS)
    labels = torch.tensor([0, 1, 1, 0, 1, 0])
    scores = torch.tensor([-2.0, -0.7, 0.1, 0.4, 1.3, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: loss(s, labels), scores)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_and_gradient_are_finite_for_enormous_scores(name: str, dtype: torch.dtype) -> None:
    scores = torch.tensor([-1e4, -1e4, -1e2, 0.0, 1e2, 1e4, 1e4], dtype=dtype, requires_grad=True)
    losses = make_loss(name, counts=COUNTS)(scores, torch.tensor([0, 1, 1, 0, 0, 1, 0]))
    losses.sum().backward()
    assert losses.isfinite().all()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


def test_bce_is_pytorchs() -> None:
    labels = (torch.arange(25) % 2).double()
    expected = functional.binary_cross_entropy_with_logits(SCORES, labels, reduction="none")
    torch.testing.assert_close(make_loss("bce")(SCORES, labels), expected)


def test_two_logit_ldam_is_a_softplus_of_the_score_difference() -> None:
    """Cao et al.'s own form: margins off the true class's cosine, times the scale, then cross-entropy."""
    cosines, labels = torch.rand(50, 2, dtype=torch.float64) * 2 - 1, torch.arange(50) % 2
    margins = torch.tensor(COUNTS, dtype=torch.float64) ** -0.25
    margins = 0.5 * margins / margins.max()
    shifted = cosines - functional.one_hot(labels, 2) * margins
    expected = functional.cross_entropy(30 * shifted, labels, reduction="none")
    torch.testing.assert_close(ldam(cosines[:, 1] - cosines[:, 0], labels, counts=COUNTS), expected)


def test_focal_losses_at_gamma_zero_are_bce() -> None:
    labels = torch.arange(25) % 2
    for loss in (symmetric_focal, asymmetric_focal):
        torch.testing.assert_close(loss(SCORES, labels, gamma=0.0), make_loss("bce")(SCORES, labels))


def test_cross_entropy_is_minus_the_log_of_the_softmax() -> None:
    logits, labels = torch.randn(9, 4, dtype=torch.float64), torch.arange(9) % 4
    expected = -logits.softmax(1)[torch.arange(9), labels].log()
    torch.testing.assert_close(cross_entropy(logits, labels), expected)


@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_scores_give_float32_losses(name: str) -> None:
    scores, labels = SCORES.bfloat16(), torch.arange(25) % 2
    losses = make_loss(name, counts=COUNTS)(scores, labels)
    torch.testing.assert_close(losses, make_loss(name, counts=COUNTS)(scores.float(), labels))


def test_published_settings_cover_every_loss_and_go_after_explicit_ones() -> None:
    for dataset, settings in PUBLISHED.items():
        assert settings.keys() == LOSSES.keys()
        for name in settings:
            make_loss(name, counts=COUNTS, dataset=dataset)(SCORES, torch.ones(25))
    ones = torch.ones(25)
    explicit = make_loss("s-ml", dataset="cifar100-1:200", margin=0.25)(SCORES, ones)
    torch.testing.assert_close(explicit, make_loss("bce")(SCORES - 0.25, ones))
    published = make_loss("s-ml", dataset="cifar100-1:200")(SCORES, ones)
    torch.testing.assert_close(published, make_loss("bce")(SCORES - 2.0, ones))


@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_the_compiled_losses_equal_the_eager_ones() -> None:
    labels = torch.arange(25) % 2

    def all_losses(scores: Tensor) -> Tensor:
        return torch.stack([make_loss(name, counts=COUNTS)(scores, labels) for name in LOSSES])

    torch.testing.assert_close(torch.compile(all_losses, fullgraph=True)(SCORES), all_losses(SCORES))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("bcee", {}, "did you mean 'bce'"),
        ("focal", {}, "choose one of 'bce', 's-ml'"),
        ("ldam", {}, "needs counts"),
        ("w-bce", {"counts": (10, 0)}, "both ≥ 1"),
        ("ldam", {"counts": (44,)}, "two numbers"),
        ("s-fl", {"margin": 1.0}, "it takes gamma"),
        ("bce", {"gamma": 1.0}, "it takes none"),
        ("s-ml", {"dataset": "cifar10-1:10"}, "did you mean 'cifar10-1:100'"),
    ],
)
def test_bad_settings_are_refused_with_what_to_do(name: str, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_loss(name, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("s-ml", {"margin": -1.0}),
        ("a-fl", {"gamma": -0.5}),
        ("cb-bce", {"beta": 1.0}),
        ("w-bce", {"share": 0.0}),
        ("ldam", {"scale": 0.0}),
        ("ldam", {"max_margin": -1.0}),
    ],
)
def test_settings_out_of_range_are_refused(name: str, setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        make_loss(name, counts=COUNTS, **setting)(SCORES, torch.ones(25))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", LOSSES)
def test_bad_batches_are_refused(name: str) -> None:
    loss = make_loss(name, counts=COUNTS)
    with pytest.raises(ValueError, match="one shape"):
        loss(torch.zeros(3, 1), torch.zeros(3))
    with pytest.raises(ValueError, match="labels must be 0 or 1"):
        loss(torch.zeros(3), torch.full((3,), -1))
    with pytest.raises(ValueError, match="labels must be a torch tensor"):
        loss(torch.zeros(3), [0, 1, 0])  # type: ignore[arg-type]
