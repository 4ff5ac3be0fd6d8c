"""A machine: network, mount, PID, IPC, UTS and cgroup namespaces around one supervisor, its PID 1.

Killing that PID 1 is pulling the plug: the kernel takes every process, mount and interface of the machine with it.
"""
