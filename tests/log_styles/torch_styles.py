"""PyTorch by hand, Lightning, Transformers, fastai."""

from tests.log_styles.styles import style


def problem(batches=10, size=8):
    """Batches of a small problem, a model and its optimiser."""
    import torch

    torch.manual_seed(1)
    x = torch.randn(batches * size, 4)
    y = (x.sum(dim=1) > 0).long()
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    return list(zip(x.split(size), y.split(size), strict=True)), model, torch.optim.Adam(model.parameters(), 0.01)


def train(model, optimizer, x, y):
    """One step; returns the loss."""
    import torch

    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


@style("loss")
def torch_mnist(truth):
    """As PyTorch's first example prints, with a test set after each epoch."""
    batches, model, optimizer = problem()
    for epoch in (1, 2, 3):
        for number, (x, y) in enumerate(batches):
            loss = train(model, optimizer, x, y)
            if number % 3 == 0:
                done, of = number * len(x), len(batches) * len(x)
                share = 100.0 * number / len(batches)
                print(f"Train Epoch: {epoch} [{done}/{of} ({share:.0f}%)]\tLoss: {loss.item():.6f}", flush=True)
                truth.add((epoch - 1) * of + done, loss)
        print("\nTest set: Average loss: 0.0543, Accuracy: 61/80 (76%)\n", flush=True)


@style("Loss")
def torch_imagenet(truth):
    """Meters with their averages in brackets; epochs count from 0."""
    batches, model, optimizer = problem()
    total, seen = 0.0, 0
    for epoch in range(3):
        for number, (x, y) in enumerate(batches, 1):
            loss = train(model, optimizer, x, y).item()
            total, seen = total + loss, seen + 1
            if number % 5 == 0:
                print(
                    f"Epoch: [{epoch}][{number:3}/{len(batches)}]\tTime  0.001 ( 0.002)\tData  0.000 ( 0.000)\t"
                    f"Loss {loss:.4e} ({total / seen:.4e})\tAcc@1  62.50 ( 60.00)",
                    flush=True,
                )
                truth.add(epoch * len(batches) + number, loss)
        print(" * Acc@1 60.000 Acc@5 90.000", flush=True)


@style("loss")
def torch_tutorial(truth):
    """`Epoch [1/3], Step [5/10], Loss: 0.5`."""
    batches, model, optimizer = problem()
    for epoch in (1, 2, 3):
        for number, (x, y) in enumerate(batches, 1):
            loss = train(model, optimizer, x, y)
            if number % 5 == 0:
                print(f"Epoch [{epoch}/3], Step [{number}/{len(batches)}], Loss: {loss.item():.4f}", flush=True)
                truth.add((epoch - 1) * len(batches) + number, loss)


@style("loss")
def torch_tensors(truth):
    """Tensors printed as they are."""
    truth.steps = "epochs"
    batches, model, optimizer = problem()
    for epoch in (1, 2, 3, 4):
        for x, y in batches:
            loss = train(model, optimizer, x, y)
        print("epoch", epoch, "loss", loss, flush=True)
        truth.add(epoch, loss)


def lightning(truth, metric, each_epoch, bar="tqdm", test=False):
    """A small model under a trainer."""
    import logging

    import lightning
    import torch

    batches, network, _ = problem(12)

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network

        def _loss(self, batch, name):
            loss = torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])
            self.log(f"{name}_loss", loss, prog_bar=True)
            return loss

        def training_step(self, batch, _):
            return self._loss(batch, "train")

        def validation_step(self, batch, _):
            self._loss(batch, "val")

        def test_step(self, batch, _):
            self._loss(batch, "test")

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 0.01)

    class Written(lightning.Callback):
        def on_train_batch_end(self, trainer, *_):
            if not each_epoch and metric in trainer.callback_metrics:
                truth.add(trainer.global_step, trainer.callback_metrics[metric])

        def on_validation_end(self, trainer, _):
            if each_epoch and not trainer.sanity_checking:
                truth.add(trainer.global_step, trainer.callback_metrics[metric])

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    shown = {
        "tqdm": lightning.pytorch.callbacks.TQDMProgressBar(refresh_rate=1),
        "rich": lightning.pytorch.callbacks.RichProgressBar(refresh_rate=1),
    }
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        callbacks=[Written(), shown[bar]],
    )
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])), 8
    )
    trainer.fit(Model(), loader, loader)
    if test:
        (found,) = trainer.test(trainer.lightning_module, loader)
        truth.values, truth.steps = [(trainer.max_epochs, found[metric])], "epochs"


@style("train_loss")
def lightning_bar(truth):
    """The bar of Lightning, drawn again and again."""
    truth.shown = "some"
    lightning(truth, "train_loss", each_epoch=False)


@style("val_loss")
def lightning_validation(truth):
    """A metric that the bar shows from the first validation on."""
    lightning(truth, "val_loss", each_epoch=True)


@style("test_loss")
def lightning_table(truth):
    """The table at the end of a test; the epoch is that of the bars above."""
    lightning(truth, "test_loss", each_epoch=False, test=True)


def transformers(truth, metric, **given):
    """A tiny language model under a trainer."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

    torch.manual_seed(1)
    rows = [{"input_ids": one, "labels": one} for one in torch.randint(0, 50, (48, 8))]

    class Written(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **more):
            if metric in logs:
                truth.add(len(truth.values) + 1, logs[metric])

    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=8, n_embd=8, n_layer=1, n_head=1))
    arguments = TrainingArguments(
        "out", num_train_epochs=2, per_device_train_batch_size=4, report_to="none", save_strategy="no", use_cpu=True,
        **given,
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:8], callbacks=[Written()]).train()


@style("loss")
def transformers_steps(truth):
    """A dictionary every few steps, with a part of an epoch, between the bars; at the end, `train_loss`."""
    truth.steps = "counted"
    transformers(truth, "loss", logging_steps=4)


@style("eval_loss")
def transformers_evaluation(truth):
    """Evaluated after each epoch."""
    truth.steps = "epochs"
    transformers(truth, "eval_loss", logging_strategy="epoch", eval_strategy="epoch", disable_tqdm=True)


@style("accuracy")
def fastai_table(truth):
    """A table with a head, a row an epoch."""
    import pandas as pd
    from fastai.tabular.all import Callback, Categorify, CategoryBlock, TabularDataLoaders, accuracy, tabular_learner
    from fastai.torch_core import set_seed

    set_seed(1)
    batches, *_ = problem(20)
    rows = pd.DataFrame([[*x.tolist(), int(y)] for xs, ys in batches for x, y in zip(xs, ys, strict=True)])
    rows.columns = [*"abcd", "y"]
    loaders = TabularDataLoaders.from_df(
        rows, procs=[Categorify], cont_names=[*"abcd"], y_names="y", y_block=CategoryBlock, bs=16, num_workers=0
    )
    learner = tabular_learner(loaders, layers=[8], metrics=accuracy)

    class Written(Callback):
        order = 90

        def after_epoch(self):
            truth.add(self.epoch + 1, self.learn.recorder.values[-1][-1])

    truth.steps = "epochs"
    learner.fit(3, 0.01, cbs=[Written()])
