"""What runs on the control plane's machine, and with which certificates."""
