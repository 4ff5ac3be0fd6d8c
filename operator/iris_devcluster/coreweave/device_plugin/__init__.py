"""Fake devices, counted by the real kubelet: its device plugin API v1beta1, one server per node and resource."""
