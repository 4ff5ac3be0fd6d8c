"""The command line, `iris` and `kubectl iris`: talks to the Kubernetes API alone, so it works wherever kubectl does."""
