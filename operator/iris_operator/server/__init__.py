"""The operator's HTTP side."""
