"""Probes of Tasks: verdict (pure) says what answers mean, agenda (pure) when to ask, ask does the asking, prober runs it all.

One loop serves all Tasks of the node. Answers stay in memory; only what changes by them is told: conditions Started and
Ready, and `Memory.ill`, which has the command stopped.
"""
