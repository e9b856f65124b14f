"""Logs in which the metric is not: learning rates, times that remain, other metrics, other messages."""

import sys
import time

from tests.log_styles import boosting_styles, keras_styles, torch_styles
from tests.log_styles.styles import Truth, style


def nothing(metric="loss"):
    """Register a function as a style in whose log nothing is to be read."""

    def register(function):
        def run(truth):
            truth.steps = None
            function()

        run.__name__ = f"no_{function.__name__}"
        return style(metric)(run)

    return register


@nothing("acc")
def keras_other_metric():
    """`accuracy` and `val_accuracy` are not `acc`."""
    keras_styles.fit(Truth(), "accuracy", 2, validation_data=keras_styles.data())


@nothing("learning_rate_loss")
def keras_learning_rates():
    """Messages of schedules."""
    import keras

    rates = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9, verbose=1)
    keras_styles.fit(Truth(), "loss", 2, callbacks=[rates])


@nothing("val_loss")
def keras_checkpoints():
    """`val_loss improved from inf to 0.7, saving model`."""
    import keras

    kept = keras.callbacks.ModelCheckpoint("best.keras", "val_loss", verbose=1, save_best_only=True)
    keras_styles.fit(Truth(), "loss", 0, callbacks=[kept], validation_data=keras_styles.data())


@nothing()
def xgboost_rmse():
    """`train-rmse`, `validation-rmse`."""
    boosting_styles.xgboost_train(Truth())


@nothing("auc")
def lightgbm_auc_of_validation():
    """`valid_0's auc` may be one of several."""
    boosting_styles.lightgbm_early_stopping(Truth())


@nothing()
def catboost_lines():
    """`learn`, `test`, `best`."""
    boosting_styles.catboost_lines(Truth())


@nothing("accuracy")
def transformers_evaluation():
    """`eval_loss`, and at the end `train_loss`."""
    torch_styles.transformers(Truth(), "eval_loss", logging_strategy="no", eval_strategy="epoch", disable_tqdm=True)


@nothing("val_acc")
def lightning_other_metric():
    """`train_loss` and `val_loss`."""
    torch_styles.lightning(Truth(), "train_loss", each_epoch=False)


@nothing("validation_loss")
def lightning_test():
    """`val_loss` in bars, `test_loss` in a table."""
    torch_styles.lightning(Truth(), "test_loss", each_epoch=False, test=True)


@nothing("precision")
def fastai_other_metric():
    """A table without that column."""
    torch_styles.fastai_table(Truth())


@nothing()
def sklearn_kmeans():
    """`Iteration 0, inertia 23.4.`"""
    from sklearn.cluster import KMeans

    x, *_ = boosting_styles.data()
    KMeans(3, n_init=1, verbose=1, random_state=1).fit(x)


@nothing()
def sklearn_forest():
    """joblib's messages, with times that remain."""
    from sklearn.ensemble import RandomForestClassifier

    x, y, *_ = boosting_styles.data()
    RandomForestClassifier(30, verbose=2, random_state=1).fit(x, y)


@nothing()
def sklearn_support_vectors():
    """libsvm's `obj = -23.3, rho = 0.1`."""
    from sklearn.svm import SVC

    x, y, *_ = boosting_styles.data()
    SVC(verbose=True).fit(x, y)


@nothing("score")
def sklearn_grid():
    """`[CV 1/3] END ..C=1;, score=0.700 total time=   0.0s` is a score of one fold: read with loss_pattern only."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    x, y, *_ = boosting_styles.data()
    GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=3, verbose=2).fit(x, y)


@nothing()
def tqdm_only():
    """Bars with a learning rate and the time that remains."""
    from tqdm import tqdm

    bar = tqdm(range(20), desc="lossless")
    for number in bar:
        time.sleep(0.02)
        bar.set_postfix(lr=1e-3 / (number + 1), grad_norm=0.5, eta="0:05")


@nothing()
def rich_progress():
    """A bar of rich that shows times alone."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(force_terminal=True, width=80, file=sys.stdout)) as progress:
        task = progress.add_task("loss of weight", total=10)
        for _ in range(10):
            time.sleep(0.02)
            progress.advance(task)


@nothing()
def loguru_messages():
    """Losses that are something else."""
    from loguru import logger

    for number in range(1, 6):
        logger.info("epoch {}: best loss: {:.3f}, val_loss={:.3f}, loss_scale=65536", number, 1 / number, 2 / number)
        logger.info("loss function: cross entropy; loss weights: 0.5, 0.5; KL loss: 0.3, target loss 0.01")


@nothing()
def tracebacks():
    """An error that names a loss."""
    import traceback

    for loss in ("nan", "0.5"):
        try:
            raise ValueError(f"expected a loss, got loss tensor of shape [{loss}, 2]")
        except ValueError:
            traceback.print_exc()


@nothing("val_loss")
def structlog_other_metric():
    """JSON in which the metric is null, a list, or of another split."""
    import structlog

    structlog.configure([structlog.processors.JSONRenderer()])
    for step in range(1, 5):
        structlog.get_logger().info("trained", step=step, loss=1 / step, val_loss=None, history={"val_loss": [1, 2]})


@nothing()
def garbage():
    """Bytes that are no text, a very long line, and control sequences."""
    import random

    random.seed(1)
    out = sys.stdout.buffer
    out.write(random.randbytes(4000) + b"\n" + b"x" * 20_000 + b"\n\x1b[2J\x1b[1;31mloss\x1b[0m\n")
    out.write(b"loss: 1.234,5\nloss: 0,512\nloss: 3,141\n\x00\x01\x02loss\x00: none\n")
