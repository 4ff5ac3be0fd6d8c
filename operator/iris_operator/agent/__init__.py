"""The node agent: desired (its Tasks in the API) x observed (sandboxes of the node's runtime) -> act.

Decisions are in `diff`, pure; `act` carries them out; `loop` runs one worker per Task that needs a look. What is true is on
the Task's status and on the sandbox's labels; what this process remembers besides (`memory`) may be lost at any time.
Rooms: `sandbox` (what a Task's container is made of), `inputs`, `probes`, `logs`, `streams` (what people ask for), `node`.
No kopf here, and no kubernetes_asyncio: it would cost 70 MB on every node.
"""
