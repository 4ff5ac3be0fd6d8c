"""Iris under simulated time: the real planners over models in memory, a vendor, kubelets and agents that are made up.

Pure: no I/O, no clock of its own, no asyncio, no randomness but from a seed. Only `cli` imports it. What may not live here:
decisions (they are plan's), reading or writing files, drawing.
"""
