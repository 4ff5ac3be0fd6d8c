"""containerd by its native gRPC API, in a containerd namespace of our own, where the kubelet never looks (facts.md, 2)."""

from iris_runtimes.containerd.driver import ContainerdRuntime

__all__ = ["ContainerdRuntime"]
