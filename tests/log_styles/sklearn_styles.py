"""scikit-learn."""

from tests.log_styles.boosting_styles import add_history, data
from tests.log_styles.styles import style


@style("loss")
def sklearn_mlp(truth):
    """`Iteration 1, loss = 0.7`."""
    from sklearn.neural_network import MLPClassifier

    x, y, *_ = data()
    model = MLPClassifier((4,), max_iter=15, verbose=True, random_state=1).fit(x, y)
    add_history(truth, model.loss_curve_)


@style("loss")
def sklearn_boosting(truth):
    """A table with a head: `Iter  Train Loss  Remaining Time`."""
    from sklearn.ensemble import GradientBoostingClassifier

    x, y, *_ = data()
    model = GradientBoostingClassifier(n_estimators=20, verbose=1, random_state=1).fit(x, y)
    for step in [*range(1, 11), 20]:
        truth.add(step, model.train_score_[step - 1])


@style("loss")
def sklearn_sgd(truth):
    """`-- Epoch 1`, and the loss lines below it."""
    import contextlib
    import os
    import re
    import tempfile

    from sklearn.linear_model import SGDClassifier

    x, y, *_ = data()
    truth.steps = "epochs"
    with tempfile.TemporaryFile() as copy:
        before = os.dup(1)
        os.dup2(copy.fileno(), 1)
        with contextlib.suppress(Warning):
            SGDClassifier(loss="log_loss", max_iter=6, tol=None, verbose=1, random_state=1).fit(x, y)
        os.dup2(before, 1)
        copy.seek(0)
        text = copy.read().decode()
    os.write(1, text.encode())
    add_history(truth, map(float, re.findall(r"Avg\. loss: ([\d.]+)", text)))
