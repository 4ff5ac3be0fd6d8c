"""The embedded Kubernetes cluster: real upstream programs on one Linux machine, without a container engine.

Knows nothing of the product that is tried on it. From the bottom up: `linux`, `cgroups`, `processes` (the kernel's
own view), `machines` (a bundle of namespaces with a supervisor, as a physical machine would be), `control_plane` and
`nodes` (what runs on those machines), `cluster` (the library's face) and `cli`.
"""
