"""The simulated CoreWeave: NodePools in, real nodes out, with the vendor's delays, limits and faults.

`plan` decides and knows no I/O; `controller` watches, asks `plan`, and does what it says; `device_plugin` gives the
nodes their fake GPUs; `cli` is `iris-devcluster cloud`. State is the API (NodePools, Nodes and two ConfigMaps in
kube-system) plus the nodes that run, so the controller may die at any moment.
"""
