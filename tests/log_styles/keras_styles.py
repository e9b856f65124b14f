"""Keras."""

from tests.log_styles.styles import style


def fit(truth, metric, verbose, batches=12, epochs=3, each_epoch=True, **more):
    """A small classifier, with a callback that writes the truth down."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(1)
    random = np.random.default_rng(1)
    x = random.normal(size=(batches * 8, 4))
    y = (x.sum(axis=1) > 0).astype("int32")
    model = keras.Sequential(
        [keras.layers.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2, "softmax")]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

    class Written(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if not each_epoch:
                truth.add((self.epoch * batches) + batch + 1, logs[metric])

        def on_epoch_begin(self, epoch, logs=None):
            self.epoch = epoch

        def on_epoch_end(self, epoch, logs=None):
            if each_epoch:
                truth.add((epoch + 1) * batches, logs[metric])

    callbacks = [Written(), *more.pop("callbacks", ())]
    model.fit(x, y, batch_size=8, epochs=epochs, verbose=verbose, callbacks=callbacks, **more)
    return model, x, y


@style("loss")
def keras_bars(truth):
    """The bars of verbose=1, which draw a step now and then; then an evaluation, which has a loss of its own."""
    truth.shown = "some"
    model, x, y = fit(truth, "loss", 1, each_epoch=False)
    model.evaluate(x, y, verbose=1)


@style("val_loss")
def keras_bars_validation(truth):
    """A metric that stands at the end of an epoch alone."""
    fit(truth, "val_loss", 1, validation_split=0.0, validation_data=data())


@style("accuracy")
def keras_lines(truth):
    """A line an epoch."""
    fit(truth, "accuracy", 2, validation_data=data())


@style("val_accuracy")
def keras_lines_and_callbacks(truth):
    """With messages of callbacks between them."""
    import keras

    callbacks = [
        keras.callbacks.ModelCheckpoint("best.keras", "val_accuracy", verbose=1, save_best_only=True),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9, verbose=1),
        keras.callbacks.ReduceLROnPlateau("val_accuracy", patience=1, verbose=1),
    ]
    fit(truth, "val_accuracy", 2, validation_data=data(), callbacks=callbacks)


@style("loss")
def keras_own_callback(truth):
    """What many print themselves."""
    import keras

    truth.steps = "epochs"

    class Printed(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            print(f"Epoch {epoch}: " + ", ".join(f"{name} = {value:.5f}" for name, value in logs.items()), flush=True)
            truth.add(epoch + 1, logs["loss"])

    fit(type(truth)(), "loss", 0, callbacks=[Printed()], validation_data=data())


def data():
    """Data for validation."""
    import numpy as np

    x = np.random.default_rng(2).normal(size=(32, 4))
    return x, (x.sum(axis=1) > 0).astype("int32")
