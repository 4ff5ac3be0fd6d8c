"""What a Task is given before its command starts: environment, volumes, bundle. Runs beside the image's pull.

Decisions are pure (`env`, `plan`, `paths` ...), I/O is beside them (`prepare`, `objects`, `files`, `bundles`).
A Secret's value is never logged, never in a message, and its files lie on a tmpfs of the worker Pod's only.
"""
