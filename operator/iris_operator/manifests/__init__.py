"""Bodies of the objects Iris makes, as pure functions of the models."""
