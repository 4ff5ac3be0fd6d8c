"""The Tasks' logs on the node: files, how long they may be, what becomes of them at the end."""
