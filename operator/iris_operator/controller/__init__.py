"""The only place with kopf: events -> cache -> queue -> one reconciler per kind -> calls, then one status patch.

May not hold decisions: those are in plan/. May not remember what the API can tell again.
"""
