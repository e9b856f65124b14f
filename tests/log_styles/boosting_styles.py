"""XGBoost, LightGBM, CatBoost."""

from tests.log_styles.styles import style


def data():
    """A small problem: training and validation."""
    import numpy as np

    random = np.random.default_rng(1)
    x = random.normal(size=(200, 5))
    y = (x.sum(axis=1) + random.normal(size=200) > 0).astype(int)
    return x[:150], y[:150], x[150:], y[150:]


def add_history(truth, values):
    """One value a round."""
    for step, value in enumerate(values, 1):
        truth.add(step, value)


@style("validation-logloss")
def xgboost_train(truth):
    """The lines of xgboost.train, from round 0."""
    import xgboost

    x, y, x_val, y_val = data()
    known, unknown = xgboost.DMatrix(x, y), xgboost.DMatrix(x_val, y_val)
    found = {}
    evals = [(known, "train"), (unknown, "validation")]
    xgboost.train({"objective": "binary:logistic", "seed": 1}, known, 8, evals=evals, evals_result=found)
    add_history(truth, found["validation"]["logloss"])


@style("validation_1-auc")
def xgboost_classifier(truth):
    """The scikit-learn interface."""
    import xgboost

    x, y, x_val, y_val = data()
    model = xgboost.XGBClassifier(n_estimators=6, eval_metric=["logloss", "auc"], random_state=1)
    model.fit(x, y, eval_set=[(x, y), (x_val, y_val)], verbose=True)
    add_history(truth, model.evals_result()["validation_1"]["auc"])


@style("test-logloss-mean")
def xgboost_folds(truth):
    """Means of a cross validation with their deviations."""
    import xgboost

    x, y, *_ = data()
    found = xgboost.cv({"objective": "binary:logistic", "seed": 1}, xgboost.DMatrix(x, y), 5, nfold=3, seed=1)
    print(found.to_string(index_names=False))
    truth.steps = "counted"
    print("\n".join(f"test-logloss-mean: {value:.5f}" for value in found["test-logloss-mean"]), flush=True)
    add_history(truth, found["test-logloss-mean"])


@style("valid_0's auc")
def lightgbm_early_stopping(truth):
    """Two metrics, and at the end a line of the best round again."""
    import lightgbm

    x, y, x_val, y_val = data()
    found = {}
    training = lightgbm.Dataset(x, y)
    lightgbm.train(
        {"objective": "binary", "metric": ["auc", "binary_logloss"], "num_leaves": 4, "seed": 1, "verbose": -1},
        training,
        30,
        valid_sets=[lightgbm.Dataset(x_val, y_val, reference=training)],
        callbacks=[lightgbm.log_evaluation(1), lightgbm.early_stopping(4), lightgbm.record_evaluation(found)],
    )
    add_history(truth, found["valid_0"]["auc"])


@style("binary_logloss")
def lightgbm_training(truth):
    """Training alone, with what LightGBM says of its data."""
    import lightgbm

    x, y, *_ = data()
    found = {}
    training = lightgbm.Dataset(x, y)
    lightgbm.train(
        {"objective": "binary", "num_leaves": 4, "seed": 1},
        training,
        20,
        valid_sets=[training],
        callbacks=[lightgbm.log_evaluation(5), lightgbm.record_evaluation(found)],
    )
    for step in range(5, 21, 5):
        truth.add(step, found["training"]["binary_logloss"][step - 1])


@style("test")
def catboost_lines(truth):
    """`learn`, `test` and `best` beside each other, with the time that remains."""
    import catboost

    x, y, x_val, y_val = data()
    model = catboost.CatBoostClassifier(iterations=12, verbose=3, random_seed=1, allow_writing_files=False)
    model.fit(x, y, eval_set=(x_val, y_val))
    values = model.get_evals_result()["validation"]["Logloss"]
    for number in (0, 3, 6, 9, 11):
        truth.add(number + 1, values[number])
