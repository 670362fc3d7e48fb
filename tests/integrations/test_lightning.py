"""The callback inside real Lightning: the gradients of the plain loop, whole checkpoints, one process or two."""

import runpy
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch
import pytest
import pytorch_lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from rankreg import PositiveBuffer, RankReg, positive_score
from rankreg.integrations import FPRAtTPR, RankRegCallback
from rankreg.metrics import fpr_at_tpr

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated:FutureWarning"),  # Lightning 2.6 with torch 2.13
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*Lightning couldn't infer the indices fetched"),
]


def data(rows: int = 96, classes: int = 2) -> TensorDataset:
    numbers = torch.Generator().manual_seed(3)
    inputs = torch.randn(rows, 4, generator=numbers)
    if classes == 2:
        return TensorDataset(inputs, (inputs[:, 0] + torch.randn(rows, generator=numbers) > 1.6).long())
    return TensorDataset(inputs, torch.randint(0, classes, (rows,), generator=numbers))


def network(outputs: int = 1) -> nn.Module:
    torch.manual_seed(1)
    layers = [nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, outputs)]
    return nn.Sequential(*layers, nn.Flatten(0)) if outputs == 1 else nn.Sequential(*layers)


class _Step:
    """What a user writes; both packages' LightningModule can carry it."""

    network: nn.Module
    rate = 0.1

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        inputs, labels = batch
        scores = self.network(inputs)
        return {"loss": binary_cross_entropy_with_logits(scores.float(), labels.float()), "scores": scores}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.network.parameters(), lr=self.rate, momentum=0.9)


class Module(_Step, lightning.pytorch.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = network()


class OldModule(_Step, pytorch_lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = network()


QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
}


def fit(
    module: Any, callback: Any, *, epochs: int = 2, rows: int = 16, ckpt: Path | None = None, **changes: Any
) -> Any:
    package = pytorch_lightning if isinstance(module, OldModule) else lightning.pytorch
    callbacks = [callback, *changes.pop("callbacks", [])]
    trainer = package.Trainer(max_epochs=epochs, callbacks=callbacks, **QUIET | changes)
    trainer.fit(module, changes.get("loader", DataLoader(data(), batch_size=rows)), ckpt_path=ckpt)
    return trainer


def plain_loop(epochs: int = 2, *, accumulate: int = 1, rows: int = 16) -> tuple[nn.Module, PositiveBuffer]:
    """The five lines of the README, accumulating gradients by hand: the oracle."""
    model, buffer, reg = network(), PositiveBuffer(8), RankReg()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(epochs):
        optimizer.zero_grad()
        for k, (inputs, labels) in enumerate(DataLoader(data(), batch_size=rows)):
            inputs, labels = buffer.extend(inputs, labels)
            scores = model(inputs)
            loss = binary_cross_entropy_with_logits(scores, labels.float()) + reg(scores, labels)
            (loss / accumulate).backward()
            if (k + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
            buffer.update(inputs, labels, scores)
    return model, buffer


def same(one: nn.Module, other: nn.Module, *, atol: float = 0.0) -> None:
    for name, value in other.state_dict().items():
        torch.testing.assert_close(one.state_dict()[name], value, rtol=0, atol=atol, msg=name)


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("kind", [Module, OldModule], ids=["lightning", "pytorch_lightning"])
def test_the_callback_trains_as_the_plain_loop_does(kind: Any, accumulate: int) -> None:
    callback, module = RankRegCallback(capacity=8), kind()
    fit(module, callback, accumulate_grad_batches=accumulate)
    model, buffer = plain_loop(accumulate=accumulate)
    same(module.network, model, atol=1e-7)
    assert torch.equal(callback.buffer.inputs[0], buffer.inputs)
    torch.testing.assert_close(callback.buffer.scores, buffer.scores, rtol=0, atol=1e-6)


def test_a_module_is_as_it_was_after_training_and_after_a_crash() -> None:
    class Crashes(Module):
        def on_train_epoch_end(self) -> None:
            raise RuntimeError("the disk is full")

    module = Module()
    fit(module, RankRegCallback(capacity=8), epochs=1)
    assert "training_step" not in module.__dict__
    broken = Crashes()
    with pytest.raises(RuntimeError, match="disk is full"):
        fit(broken, RankRegCallback(capacity=8), epochs=1)
    assert "training_step" not in broken.__dict__


def test_scores_of_bfloat16_are_ranked_and_kept_in_float32() -> None:
    seen: list[torch.dtype] = []

    class Watched(RankReg):
        def forward(self, scores: Tensor, labels: Tensor, ids: Tensor | None = None) -> Tensor:
            seen.append(scores.dtype)
            return super().forward(scores, labels, ids)

    class Halved(Module):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            output = super().training_step(batch, batch_idx)
            assert output["scores"].dtype == torch.bfloat16
            return output

    module, callback = Halved(), RankRegCallback(Watched(), capacity=8)
    fit(module, callback, precision="bf16-mixed")
    assert set(seen) == {torch.float32}
    assert callback.buffer.scores.dtype == torch.float32
    assert all(value.isfinite().all() for value in module.parameters())


def test_an_optimiser_that_evaluates_the_loss_often_fills_the_buffer_once() -> None:
    class Often(Module):
        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.LBFGS(self.network.parameters(), lr=0.05, max_iter=4)

    callback = RankRegCallback(capacity=64)
    fit(Often(), callback, epochs=1)
    positives = int(data().tensors[1].sum())
    assert len(callback.buffer) == positives > 2


class Named(NamedTuple):
    inputs: Tensor
    target: Tensor


@pytest.mark.parametrize("style", ["dict", "named"])
def test_batches_of_other_shapes_say_where_the_labels_are(style: str) -> None:
    def collate(rows: list[Any]) -> Any:
        inputs, labels = torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])
        return {"x": inputs, "target": labels} if style == "dict" else Named(inputs, labels)

    class Other(Module):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            pair = (batch["x"], batch["target"]) if style == "dict" else (batch.inputs, batch.target)
            return super().training_step(pair, batch_idx)

    callback, module = RankRegCallback(capacity=8, labels="target" if style == "dict" else 1), Other()
    loader = DataLoader(data(), batch_size=16, collate_fn=collate)
    lightning.pytorch.Trainer(max_epochs=2, callbacks=[callback], **QUIET).fit(module, loader)
    same(module.network, plain_loop()[0], atol=1e-7)


def test_many_classes_one_of_them_critical() -> None:
    class Many(Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network(3)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            logits = self.network(batch[0])
            return {"loss": cross_entropy(logits, batch[1]), "scores": logits}

    callback, module = RankRegCallback(RankReg(positive=2), capacity=8), Many()
    lightning.pytorch.Trainer(max_epochs=1, callbacks=[callback], **QUIET).fit(
        module, DataLoader(data(classes=3), batch_size=96)
    )
    assert callback.buffer.inputs[1].tolist() == [2] * 8
    everything, labels = data(classes=3).tensors
    first = positive_score(network(3)(everything[labels == 2]), 2)
    assert torch.allclose(callback.buffer.scores.sort().values, first.detach().sort().values[:8])


def test_the_term_is_logged_and_a_metric_can_be_too() -> None:
    class Logs(Module):
        def __init__(self) -> None:
            super().__init__()
            self.fpr = FPRAtTPR(0.9, undefined="nan")

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.fpr.update(self.network(batch[0]), batch[1])
            self.log("fpr", self.fpr)

    module = Logs()
    trainer = lightning.pytorch.Trainer(max_epochs=1, callbacks=[RankRegCallback()], **QUIET)
    trainer.fit(module, DataLoader(data(), batch_size=96), DataLoader(data(), batch_size=7))
    inputs, labels = data().tensors
    assert trainer.callback_metrics["rankreg"].item() == pytest.approx(RankReg()(network()(inputs), labels).item())
    expected = fpr_at_tpr(labels.numpy(), module.network(inputs).detach().numpy(), 0.9)
    assert trainer.callback_metrics["fpr"].item() == pytest.approx(expected, abs=1e-7)


@pytest.mark.filterwarnings("ignore:.*callbacks used to create the checkpoint need to be provided")
def test_a_resumed_run_is_the_run_that_never_stopped(tmp_path: Path) -> None:
    """Weights, momentum and every held sample agree to the last bit; Lightning itself resumes whole epochs only."""
    whole, whole_callback = Module(), RankRegCallback(capacity=8)
    fit(whole, whole_callback, epochs=3)
    keep = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1)
    fit(Module(), RankRegCallback(capacity=8), callbacks=[keep], enable_checkpointing=True)
    resumed, callback = Module(), RankRegCallback(capacity=8)
    fit(resumed, callback, epochs=3, ckpt=tmp_path / "epoch=0.ckpt")
    same(resumed.network, whole.network)
    assert torch.equal(callback.buffer.scores, whole_callback.buffer.scores)
    assert torch.equal(callback.buffer.inputs[0], whole_callback.buffer.inputs[0])


def test_the_weights_of_a_checkpoint_load_without_the_callback_and_without_executing_anything(
    tmp_path: Path,
) -> None:
    module = Module()
    trainer = fit(module, RankRegCallback(capacity=8), epochs=1)
    trainer.save_checkpoint(tmp_path / "model.ckpt")
    content = torch.load(tmp_path / "model.ckpt", weights_only=True)
    assert content["state_dict"].keys() == Module().state_dict().keys()
    assert len(content["callbacks"]["RankRegCallback"]["processes"][0]["scores"]) == 8
    same(Module.load_from_checkpoint(tmp_path / "model.ckpt"), module)


def without_scores(self: Module, batch: Any, batch_idx: int) -> Any:
    return _Step.training_step(self, batch, batch_idx)["loss"]


def in_columns(self: Module, batch: Any, batch_idx: int) -> Any:
    output = _Step.training_step(self, batch, batch_idx)
    return output | {"scores": output["scores"].unsqueeze(1)}


@pytest.mark.parametrize(
    ("step", "callback", "message"),
    [
        (without_scores, RankRegCallback(), r"returned a Tensor.*return \{'loss': loss, 'scores': scores\}"),
        (in_columns, RankRegCallback(), r"squeeze\(1\)"),
        (_Step.training_step, RankRegCallback(scores="logits"), "returned keys 'loss', 'scores'"),
        (_Step.training_step, RankRegCallback(labels="y"), "no labels at 'y' in a batch that is a list"),
    ],
)
def test_what_the_callback_cannot_use_is_named(step: Any, callback: Any, message: str) -> None:
    kind = type("Wrong", (Module,), {"training_step": step})
    with pytest.raises(ValueError, match=message):
        fit(kind(), callback)


def test_manual_optimisation_is_refused_before_training() -> None:
    module = Module()
    module.automatic_optimization = False
    with pytest.raises(ValueError, match="call PositiveBuffer and RankReg in training_step"):
        fit(module, RankRegCallback())


@pytest.mark.slow
def test_the_example_trains_both_ways_and_the_callback_cuts_false_alarms() -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples/lightning_loop.py"))
    found = example["main"]()
    assert 0 <= found["bce + rankreg"] < found["bce"] <= 100


def test_without_lightning_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "rankreg.integrations.lightning")
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"^RankRegCallback needs Lightning: pip install 'rankreg\[lightning\]'$"):
        import_module("rankreg.integrations.lightning")
